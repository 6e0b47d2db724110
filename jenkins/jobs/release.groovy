// Releases torch-spyre at the tag of a semantic version; people start it.
pipelineJob('spyre/release') {
    description('All tests of a version; then its image and its packages are published.')
    parameters {
        stringParam('VERSION', '', 'semantic version, such as 1.2.3; the tag v1.2.3 has to be there')
        stringParam('STACK', '', 'stack file with what is released, each by tag; empty: the one of the settings')
        stringParam('STAGE', '', 'stage of the roll-out; empty: the one in force')
        stringParam('BUILDER', 'linux && spyre_pf_x0', 'label of agents with a container engine')
        stringParam('DEVICE', 'linux && spyre_pf_x1', 'label of agents with a card and a container engine')
        stringParam('NOTIFY', '', 'address of who is told how it ended; empty: nobody')
    }
    definition {
        cpsScm {
            scm {
                git {
                    remote {
                        url(TOOLKIT_URL)
                        credentials(TOOLKIT_CREDENTIALS)
                    }
                    branch(TOOLKIT_BRANCH)
                }
            }
            scriptPath('jenkins/Jenkinsfile.release')
            lightweight(true)
        }
    }
}
