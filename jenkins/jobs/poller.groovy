// Asks repositories whose webhooks cannot reach this Jenkins what is new, and starts the jobs above. Which credentials
// it has and which hosts get them is said by poller.json beside this, and by nothing that whoever starts it could give.
pipelineJob('spyre/poller') {
    description('Polls the repositories of jenkins/webhooks.yaml that have a key poll.')
    parameters {
        stringParam('BUILDER', 'spyre-poller', 'label of one agent, as what was started is noted there')
        stringParam('STATE', '/var/lib/spyre-ci/polls.json', 'where it is noted, outside of any workspace')
        stringParam('NOTIFY', '', 'address of who is told when it fails; empty: nobody')
    }
    properties {
        disableConcurrentBuilds {
            abortPrevious(false)
        }
        pipelineTriggers {
            triggers {
                cron {
                    spec('H/5 * * * *')
                }
            }
        }
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
            scriptPath('jenkins/Jenkinsfile.poller')
            lightweight(true)
        }
    }
}
