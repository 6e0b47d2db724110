/** What the DSL of jobs (Jenkins' plugin job-dsl) knows, as far as it is used here: methods with their blocks. */
class KnownJobs {

    static final Map GIT = [remote: [url: [:], credentials: [:]], branch: [:]]
    static final Map TRIGGERS = [cron: [spec: [:]]]
    static final Map DISCOVERY = [strategyId: [:]]
    static final Map PARAMETERS = [stringParam: [:], booleanParam: [:], choiceParam: [:], textParam: [:]]
    static final Map KNOWN = [
        folder: [
            description: [:], displayName: [:],
            properties: [folderLibraries: [libraries: [libraryConfiguration: [
                name: [:], defaultVersion: [:], implicit: [:], allowVersionOverride: [:], includeInChangesets: [:],
                retriever: [modernSCM: [libraryPath: [:], scm: [git: [remote: [:], credentialsId: [:]]]]],
            ]]]],
        ],
        pipelineJob: [
            description: [:], displayName: [:], disabled: [:], parameters: PARAMETERS,
            properties: [disableConcurrentBuilds: [abortPrevious: [:]], pipelineTriggers: [triggers: TRIGGERS]],
            definition: [cpsScm: [scm: [git: GIT], scriptPath: [:], lightweight: [:]]],
        ],
        // As the branch source of GitHub, Remote Jenkinsfile Provider and SCM Filter Branch PR document their symbols.
        multibranchPipelineJob: [
            description: [:], displayName: [:],
            branchSources: [branchSource: [source: [github: [
                id: [:], apiUri: [:], credentialsId: [:], repoOwner: [:], repository: [:], repositoryUrl: [:],
                configuredByUrl: [:],
                traits: [
                    gitHubBranchDiscovery: DISCOVERY, gitHubPullRequestDiscovery: DISCOVERY,
                    gitHubForkDiscovery: [strategyId: [:], trust: [
                        gitHubTrustNobody: [:], gitHubTrustContributors: [:], gitHubTrustPermissions: [:],
                        gitHubTrustEveryone: [:],
                    ]],
                    headWildcardFilterWithPR: [includes: [:], excludes: [:], tagIncludes: [:], tagExcludes: [:]],
                ],
            ]]]],
            factory: [
                workflowBranchProjectFactory: [scriptPath: [:]],
                remoteJenkinsFileWorkflowBranchProjectFactory: [
                    remoteJenkinsFile: [:], localMarker: [:], matchBranches: [:], fallbackBranch: [:],
                    remoteJenkinsFileSCM: [gitSCM: [
                        userRemoteConfigs: [userRemoteConfig: [name: [:], url: [:], refspec: [:], credentialsId: [:]]],
                        branches: [branchSpec: [name: [:]]], browser: [githubWeb: [repoUrl: [:]]], gitTool: [:],
                    ]],
                ],
            ],
            triggers: [periodicFolderTrigger: [interval: [:]]],
            orphanedItemStrategy: [discardOldItems: [daysToKeep: [:], numToKeep: [:]]],
        ],
        job: [
            description: [:], parameters: PARAMETERS, scm: [git: GIT], triggers: [scm: [:], cron: [:]],
            steps: [dsl: [external: [:], removeAction: [:], removeViewAction: [:], lookupStrategy: [:],
                          ignoreExisting: [:], ignoreMissingFiles: [:], additionalClasspath: [:], text: [:]]],
        ],
    ]

}
