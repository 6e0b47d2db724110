// The folder of all jobs, with the shared library that their Jenkinsfiles name. TOOLKIT_URL and TOOLKIT_BRANCH are
// parameters of the seed job: library, Jenkinsfiles and jobs are of one branch.
folder('spyre') {
    description('PyTorch on Spyre cards: made by spyre/seed from jenkins/jobs, so change it there.')
    properties {
        folderLibraries {
            libraries {
                libraryConfiguration {
                    name('spyre-ci')
                    defaultVersion(TOOLKIT_BRANCH)
                    implicit(false)
                    // A Jenkinsfile that names another version would run steps that nobody reviewed.
                    allowVersionOverride(false)
                    includeInChangesets(false)
                    retriever {
                        modernSCM {
                            libraryPath('jenkins/')
                            scm {
                                git {
                                    remote(TOOLKIT_URL)
                                    credentialsId(TOOLKIT_CREDENTIALS)
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
