// A job for each variant of PyTorch: once a night, and four times a day from stage 3 of the roll-out on. The stage is
// the one of spyre-ci.yaml, so that it stands in one place.
int stage = (readFileFromWorkspace('spyre-ci.yaml') =~ /(?m)^stage:\s*(\d+)/)[0][1] as int

[
    pinned: [night: 'H 1 * * *', day: 'H 1,7,13,19 * * *', what: 'the pinned release'],
    main: [night: 'H 4 * * *', day: 'H 4,10,16,22 * * *', what: "PyTorch's newest build"],
].each { variant, one ->
    pipelineJob("spyre/nightly-${variant}") {
        description("PyTorch's tests of stage ${stage} on ${one.what}.")
        parameters {
            stringParam('VARIANT', variant, 'variant of images/stack.yaml')
            stringParam('STAGE', '', 'stage of the roll-out; empty: the one in force')
            stringParam('BUILDER', 'linux && spyre_pf_x0', 'label of agents with a container engine')
            stringParam('DEVICE', 'linux && spyre_pf_x1', 'label of agents with a card and a container engine')
            stringParam('NOTIFY', '', 'address of who is told how it ended; empty: nobody')
            stringParam('IDEMPOTENCY_KEY', '', 'by it a lane knows a build that it started')
        }
        properties {
            pipelineTriggers {
                triggers {
                    cron {
                        spec(stage >= 3 ? one.day : one.night)
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
