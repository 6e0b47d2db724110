import groovy.json.JsonSlurper

// A job for each variant of PyTorch. The stage is the one of spyre-ci.yaml, and what begins a job in it are the lanes
// there, of which `spyre-ci lanes export jenkins` writes triggers.json: so that each stands in one place.
int stage = (readFileFromWorkspace('spyre-ci.yaml') =~ /(?m)^stage:\s*(\d+)/)[0][1] as int
Map told = new JsonSlurper().parseText(readFileFromWorkspace('jenkins/resources/triggers.json'))

[pinned: 'the pinned release', main: "PyTorch's newest build"].each { variant, what ->
    List lines = told.triggers
        .findAll { one -> one.job == "spyre/nightly-${variant}" && (!one.in_stages || stage in one.in_stages) }
        .collectMany { one -> one.cron }
    pipelineJob("spyre/nightly-${variant}") {
        description("PyTorch's tests of stage ${stage} on ${what}.")
        parameters {
            stringParam('VARIANT', variant, 'variant of images/stack.yaml')
            stringParam('STAGE', '', 'stage of the roll-out; empty: the one in force')
            stringParam('BUILDER', 'linux && spyre_pf_x0', 'label of agents with a container engine')
            stringParam('DEVICE', 'linux && spyre_pf_x1', 'label of agents with a card and a container engine')
            stringParam('NOTIFY', '', 'address of who is told how it ended; empty: nobody')
        }
        properties {
            pipelineTriggers {
                triggers {
                    if (lines) {
                        cron {
                            // Jenkins reads a time zone in the first line only.
                            spec((["TZ=${told.time_zone}"] + lines).join('\n'))
                        }
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
                scriptPath('jenkins/Jenkinsfile.nightly')
                lightweight(true)
            }
        }
    }
}
