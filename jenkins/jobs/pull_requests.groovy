// A job for each component of components.json: its pull requests to one branch. GitHub's webhook starts it by the
// Generic Webhook Trigger, the poller by the same parameters. What is fixed is no parameter: whoever may start a build
// could send the token of the status elsewhere, or have a green one for no tests. Jenkinsfile.pr looks it up by the
// job's name.
import groovy.json.JsonSlurper

new JsonSlurper().parseText(readFileFromWorkspace('jenkins/resources/components.json')).each { one ->
    pipelineJob("spyre/pr-${one.component}") {
        description("Pull requests of ${one.repository} to ${one.branch}; the result is the status ${one.context}.")
        parameters {
            stringParam('PULL_REQUEST', '', 'its number')
            stringParam('HEAD_SHA', '', 'its head, which gets the status')
            stringParam('BRANCH', one.branch, 'the branch it wants to go to; to another one nothing runs')
            stringParam('IDEMPOTENCY_KEY', '', 'by it the poller knows a build that it started')
            stringParam('REPOSITORY', one.repository, 'owner/name; of another one nothing runs')
            stringParam('BUILDER', 'linux && spyre_pf_x0', 'label of agents with a container engine')
            stringParam('DEVICE', 'linux && spyre_pf_x1', 'label of agents with a card and a container engine')
            stringParam('NOTIFY', '', 'address of who is told how it ended; empty: nobody')
        }
        properties {
            pipelineTriggers {
                triggers {
                    genericTrigger {
                        genericVariables {
                            [
                                ACTION: '$.action', PULL_REQUEST: '$.pull_request.number',
                                HEAD_SHA: '$.pull_request.head.sha', BRANCH: '$.pull_request.base.ref',
                                REPOSITORY: '$.repository.full_name',
                                AUTHOR: '$.pull_request.author_association',
                            ].each { name, path ->
                                genericVariable {
                                    key(name)
                                    value(path)
                                    expressionType('JSONPath')
                                    // Whatever else stands there is no name, number or SHA.
                                    regexpFilter('[^A-Za-z0-9._/-]')
                                }
                            }
                        }
                        genericHeaderVariables {
                            genericHeaderVariable {
                                key('X-GitHub-Event')
                                regexpFilter('[^a-z_]')
                            }
                        }
                        tokenCredentialId('spyre-ci-webhook')
                        causeString('pull request $PULL_REQUEST of $REPOSITORY')
                        printContributedVariables(false)
                        printPostContent(false)
                        regexpFilterText('$x_github_event $ACTION $REPOSITORY $BRANCH $AUTHOR')
                        // Cards and the company's network are for people who have contributed before.
                        regexpFilterExpression('^pull_request (opened|reopened|synchronize) ' +
                            one.repository.replace('.', '\\.') + ' ' + one.branch.replace('.', '\\.') +
                            ' (OWNER|MEMBER|COLLABORATOR|CONTRIBUTOR)$')
                    }
                }
            }
        }
        definition {
            cpsScm {
                // Of the toolkit, never of the pull request.
                scm {
                    git {
                        remote {
                            url(TOOLKIT_URL)
                            credentials(TOOLKIT_CREDENTIALS)
                        }
                        branch(TOOLKIT_BRANCH)
                    }
                }
                scriptPath('jenkins/Jenkinsfile.pr')
                lightweight(true)
            }
        }
    }
}
