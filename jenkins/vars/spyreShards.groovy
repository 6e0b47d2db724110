/** Plans PyTorch's tests, runs the plan's legs side by side and reports; see spyreShards.txt. */
void call(Map given) {
    Map told = spyreArguments('spyreShards', [
        label: null, minutes: 60, image: '', lane: '', environment: [:], secrets: [:],
    ], given)
    Map plan = [:]
    Map environment = told.environment + (told.image ? [SPYRE_CI__PYTORCH__SOURCE: '../pytorch'] : [:])
    spyreNode(label: told.label, minutes: told.minutes, files: 'toolkit/runs/ci/**') {
        if (told.image) {
            spyreNox(session: 'image', arguments: ['tree', told.image, '../pytorch'])
        }
        spyreNox(
            session: 'plan', image: told.image, environment: environment,
            arguments: ['--for', 'jenkins', '--run-dir', 'runs/ci', '--out', 'runs/plan.json'] +
                (told.lane ? ['--lane', told.lane] : []))
        plan = readJSON(file: 'toolkit/runs/plan.json', returnPojo: true)
        stash(name: 'run', includes: 'toolkit/runs/ci/**,pytorch/**')
    }
    Map branches = [:]
    plan.matrix.each { name, leg ->
        branches[name] = {
            spyreNode(label: leg.label, minutes: leg.timeout_minutes, cards: leg.cards) {
                unstash('run')
                try {
                    spyreNox(
                        session: 'shards', image: told.image, environment: environment,
                        arguments: ['--run-dir', 'runs/ci', '--shard', leg.shards])
                } finally {
                    // An error here would hide why there is none.
                    stash(
                        name: "journal-${name}", allowEmpty: true,
                        includes: 'toolkit/runs/ci/journal/**,toolkit/runs/ci/control/**')
                }
            }
        }
    }
    if (!branches) {
        echo('No PyTorch tests in this stage')
        return
    }
    Map report = [label: told.label, minutes: told.minutes, legs: branches.keySet() as List,
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
}
