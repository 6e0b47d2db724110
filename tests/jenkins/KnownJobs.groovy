/** What the DSL of jobs (Jenkins' plugin job-dsl) knows, as far as it is used here: methods with their blocks. */
class KnownJobs {

    static final Map GIT = [remote: [url: [:], credentials: [:]], branch: [:]]
    static final Map TRIGGERS = [
        cron: [spec: [:]],
        genericTrigger: [
            genericVariables: [genericVariable: [key: [:], value: [:], expressionType: [:], regexpFilter: [:],
                                                 defaultValue: [:]]],
            genericHeaderVariables: [genericHeaderVariable: [key: [:], regexpFilter: [:]]],
            token: [:], tokenCredentialId: [:], causeString: [:], printContributedVariables: [:],
            printPostContent: [:], silentResponse: [:], regexpFilterText: [:], regexpFilterExpression: [:],
        ],
    ]
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
        job: [
            description: [:], parameters: PARAMETERS, scm: [git: GIT], triggers: [scm: [:], cron: [:]],
            steps: [dsl: [external: [:], removeAction: [:], removeViewAction: [:], lookupStrategy: [:],
                          ignoreExisting: [:], ignoreMissingFiles: [:], additionalClasspath: [:], text: [:]]],
        ],
    ]

}
