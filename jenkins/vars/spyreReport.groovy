/** Reports a run from whatever journals its legs left; see spyreReport.txt. */
void call(Map given) {
    Map told = spyreArguments('spyreReport', [
        label: null, minutes: 60, legs: null, environment: [:], secrets: [:],
    ], given)
    spyreNode(
        label: told.label, minutes: told.minutes,
        junit: 'toolkit/runs/ci/junit/*.xml', files: 'toolkit/runs/ci/**',
        stashes: [report: 'toolkit/runs/ci/**']) {
        unstash('run')
        for (String name in told.legs) {
            // A leg that was lost left nothing; its tests are reported as not run.
            catchError(
                buildResult: 'FAILURE', stageResult: 'FAILURE', catchInterruptions: false,
                message: "${name} left no journal") {
                unstash("journal-${name}")
            }
        }
        spyreNox(
            session: 'report', arguments: ['--run-dir', 'runs/ci'], environment: told.environment,
            secrets: told.secrets)
    }
}
