/**
 * Steps and their parameters, as the documentation of Jenkins' plugins lists them (jenkins.io/doc/pipeline/steps).
 * The first parameter is the one that may be given without its name; needed ones end in `!`.
 */
class Known {

    static final Map<String, List<String>> STEPS = [
        archiveArtifacts: ['artifacts!', 'allowEmptyArchive', 'caseSensitive', 'defaultExcludes', 'excludes',
                           'fingerprint', 'followSymlinks', 'onlyIfSuccessful'],
        catchError: ['-', 'buildResult', 'catchInterruptions', 'message', 'stageResult'],
        checkout: ['scm!', 'changelog', 'poll'],
        deleteDir: ['-'],
        dir: ['path!'],
        echo: ['message!'],
        error: ['message!'],
        fileExists: ['file!'],
        libraryResource: ['resource!', 'encoding'],
        junit: ['testResults!', 'allowEmptyResults', 'checksName', 'healthScaleFactor', 'keepLongStdio',
                'keepProperties', 'keepTestNames', 'skipMarkingBuildUnstable', 'skipOldReports',
                'skipPublishingChecks', 'stdioRetention', 'testDataPublishers'],
        lock: ['resource', 'extra', 'inversePrecedence', 'label', 'priority', 'quantity', 'reason',
               'resourceSelectStrategy', 'skipIfLocked', 'variable'],
        mail: ['-', 'bcc', 'body!', 'cc', 'charset', 'from', 'mimeType', 'replyTo', 'subject!', 'to'],
        node: ['label'],
        parallel: ['-'],
        readFile: ['file!', 'encoding'],
        readJSON: ['-', 'file', 'returnPojo', 'text'],
        retry: ['count!', 'conditions'],
        script: ['-'],
        sh: ['script!', 'encoding', 'label', 'returnStatus', 'returnStdout'],
        stage: ['name!'],
        stash: ['name!', 'allowEmpty', 'excludes', 'includes', 'useDefaultExcludes'],
        timeout: ['time!', 'activity', 'unit'],
        timestamps: ['-'],
        unstable: ['message!'],
        unstash: ['name!'],
        withCredentials: ['bindings!'],
        withEnv: ['overrides!'],
        writeFile: ['file!', 'encoding', 'text!'],
        // What is handed to a step above.
        agent: ['-'],
        nonresumable: ['-'],
        scmGit: ['-', 'branches!', 'browser', 'extensions', 'gitTool', 'userRemoteConfigs!'],
        string: ['-', 'credentialsId!', 'variable!'],
    ]
    static final Set<String> HANDED = ['agent', 'nonresumable', 'scmGit', 'string'] as Set
    static final Set<String> WITH_BODY = [
        'catchError', 'dir', 'lock', 'node', 'retry', 'script', 'stage', 'timeout', 'timestamps',
        'withCredentials', 'withEnv',
    ] as Set
    static final Set<String> UNITS = ['NANOSECONDS', 'MICROSECONDS', 'MILLISECONDS', 'SECONDS', 'MINUTES', 'HOURS',
                                      'DAYS'] as Set

    /** A step's arguments by name; anything that is not on the list is refused. */
    static Map arguments(String step, Object[] given) {
        if (!STEPS.containsKey(step)) {
            throw new Refused("No such DSL method '${step}' found among steps ${STEPS.keySet().sort()}")
        }
        List<Object> rest = given as List
        Closure body = rest && rest.last() instanceof Closure ? rest.remove(rest.size() - 1) as Closure : null
        if ((body != null) != WITH_BODY.contains(step)) {
            throw new Refused("${step} ${body == null ? 'wants' : 'takes no'} body")
        }
        if (step == 'parallel') {
            return [branches: rest[0]]
        }
        [body: body] + named(step, rest)
    }

    private static Map named(String step, List<Object> given) {
        List<String> known = STEPS[step]
        String first = known.first() - '!'
        boolean byName = given && given.first() instanceof Map && !(first == 'scm' && given.first().kind)
        Map told = byName ? given.first() : given && first != '-' ? [(first): given.first()] : [:]
        if (given.size() > 1 || (given && !byName && first == '-')) {
            throw new Refused("${step} takes no ${given.size()} arguments without a name")
        }
        List<String> names = known.collect { one -> one - '!' } - '-'
        List<String> unknown = told.keySet().findAll { !(it in names) } as List
        if (unknown) {
            throw new Refused("${step} has no parameter ${unknown.join(', ')}; known: ${names.join(', ')}")
        }
        List<String> missing = known.findAll { it.endsWith('!') }*.minus('!').findAll { told[it] == null }
        if (missing) {
            throw new Refused("${step} wants ${missing.join(', ')}")
        }
        told
    }

}
