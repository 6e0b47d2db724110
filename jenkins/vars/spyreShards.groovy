/** Plans PyTorch's tests, runs the plan's legs side by side and reports; see spyreShards.txt. */
String call(Map given) {
    Map told = spyreArguments('spyreShards', [
        label: null, minutes: 60, image: '', tier: '', environment: [:], secrets: [:],
    ], given)
    Map environment = told.environment + (told.image ? [SPYRE_CI__PYTORCH__SOURCE: '../pytorch'] : [:])
    Map matrix = plan(told, environment)
    if (!matrix) {
        echo('No PyTorch tests in this stage')
        return ''
    }
    Map branches = [:]
    matrix.each { name, leg -> branches[name] = branch(name, leg, told, environment) }
    Map report = [label: told.label, minutes: told.minutes, legs: matrix.keySet() as List,
                  environment: environment, secrets: told.secrets]
    try {
        parallel(branches)
    // Whatever it is, the report comes first; a build that was stopped stays one that was stopped.
    // groovylint-disable-next-line CatchException
    } catch (Exception trouble) {
        catchError(buildResult: 'FAILURE', stageResult: 'FAILURE') {
            spyreReport(report)
        }
        throw trouble
    }
    spyreReport(report)
    return 'runs/ci'
}

/** Plans where PyTorch is, and deals the plan where nothing of the image ran: gives the legs by name. */
private Map plan(Map told, Map environment) {
    spyreNode(
        label: told.label, minutes: told.minutes, files: 'toolkit/runs/ci/**',
        stashes: [run: 'toolkit/runs/ci/**,pytorch/**']) {
        if (told.image) {
            spyreNox(session: 'image', arguments: ['tree', told.image, '../pytorch'])
        }
        spyreNox(
            session: 'plan', image: told.image, environment: environment,
            arguments: ['--for', 'jenkins', '--run-dir', 'runs/ci'] + (told.tier ? ['--tier', told.tier] : []))
    }
    Map dealt = [:]
    // In a workspace of its own: the image could write to the one above, the toolkit in it as well.
    spyreNode(label: told.label, minutes: told.minutes, sources: ['toolkit']) {
        unstash('run')
        spyreNox(
            session: 'pipeline', environment: environment,
            arguments: ['legs', '--run-dir', 'runs/ci', '--out', 'runs/legs.json'])
        dealt = readJSON(file: 'toolkit/runs/legs.json', returnPojo: true)
    }
    return dealt.matrix
}

private Closure branch(String name, Map leg, Map told, Map environment) {
    return {
        spyreNode(
            label: leg.label, minutes: leg.timeout_minutes, cards: leg.cards,
            stashes: [("journal-${name}".toString()): 'toolkit/runs/ci/journal/**,toolkit/runs/ci/control/**']) {
            unstash('run')
            spyreNox(
                session: 'shards', image: told.image, environment: environment,
                arguments: ['--run-dir', 'runs/ci', '--shard', leg.shards])
        }
    }
}
