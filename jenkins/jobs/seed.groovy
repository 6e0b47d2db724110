// The seed job itself: it makes all jobs anew when the toolkit's branch moves. The first time it is made by hand, as
// docs/pipelines.md says.
job('spyre/seed') {
    description('Makes the jobs of this folder from jenkins/jobs.')
    parameters {
        stringParam('TOOLKIT_URL', TOOLKIT_URL, 'where this toolkit is cloned from')
        stringParam('TOOLKIT_BRANCH', TOOLKIT_BRANCH, 'the branch whose jobs, steps and Jenkinsfiles hold')
        stringParam('TOOLKIT_CREDENTIALS', TOOLKIT_CREDENTIALS, 'id of credentials for that; empty: none')
    }
    scm {
        git {
            remote {
                url(TOOLKIT_URL)
                credentials(TOOLKIT_CREDENTIALS)
            }
            branch(TOOLKIT_BRANCH)
        }
    }
    triggers {
        scm('H/15 * * * *')
    }
    steps {
        dsl {
            // In this order: jobs want their folder.
            external(
                'jenkins/jobs/folder.groovy', 'jenkins/jobs/pull_requests.groovy', 'jenkins/jobs/nightly.groovy',
                'jenkins/jobs/release.groovy', 'jenkins/jobs/seed.groovy')
            // What was taken out keeps its history.
            removeAction('DISABLE')
        }
    }
}
