// A multibranch job for each component of components.json: it scans for pull requests by itself, each five minutes and
// whenever GitHub's webhook (/github-webhook/) reaches this Jenkins. What may run is not said by a pull request: the
// Jenkinsfile is the toolkit's, and Jenkinsfile.pr asks first whether the author has contributed before, which is no
// trust that the branch source knows.
import groovy.json.JsonSlurper

new JsonSlurper().parseText(readFileFromWorkspace('jenkins/resources/components.json')).each { one ->
    multibranchPipelineJob("spyre/pr-${one.component}") {
        description("Pull requests of ${one.repository} to ${one.branch}; the result is the status ${one.context}.")
        branchSources {
            branchSource {
                source {
                    github {
                        id("pr-${one.component}")
                        apiUri(one.api)
                        credentialsId(one.credentials ?: '')
                        repoOwner(one.repository.tokenize('/')[0])
                        repository(one.repository.tokenize('/')[1])
                        repositoryUrl(one.clone)
                        configuredByUrl(false)
                        traits {
                            // The heads themselves (2): merged ones would be rebuilt with each push to the branch.
                            gitHubPullRequestDiscovery {
                                strategyId(2)
                            }
                            gitHubForkDiscovery {
                                strategyId(2)
                                trust {
                                    gitHubTrustNobody()
                                }
                            }
                            headWildcardFilterWithPR {
                                includes(one.branch)
                                excludes('')
                                tagIncludes('')
                                tagExcludes('*')
                            }
                        }
                    }
                }
            }
        }
        factory {
            remoteJenkinsFileWorkflowBranchProjectFactory {
                remoteJenkinsFile('jenkins/Jenkinsfile.pr')
                localMarker('')
                matchBranches(false)
                remoteJenkinsFileSCM {
                    gitSCM {
                        userRemoteConfigs {
                            userRemoteConfig {
                                name('origin')
                                url(TOOLKIT_URL)
                                refspec('')
                                credentialsId(TOOLKIT_CREDENTIALS)
                            }
                        }
                        branches {
                            branchSpec {
                                name(TOOLKIT_BRANCH)
                            }
                        }
                        // Both are wanted, and nothing has to be said in them.
                        browser { }
                        gitTool('')
                    }
                }
            }
        }
        triggers {
            periodicFolderTrigger {
                interval('5m')
            }
        }
        orphanedItemStrategy {
            discardOldItems {
                daysToKeep(30)
            }
        }
    }
}
