/** Sets the status of a commit on GitHub; see spyreStatus.txt. */
void call(Map given) {
    Map told = spyreArguments('spyreStatus', [
        label: null, minutes: 15, toolkit: [:], repository: null, commit: null, context: null,
        credentials: 'spyre-ci-github', state: '', description: '', environment: [:],
    ], given)
    String result = currentBuild.currentResult
    String state = told.state ?: [SUCCESS: 'success', ABORTED: 'error'].get(result, 'failure')
    spyreNode(label: told.label, minutes: told.minutes, sources: []) {
        // Not the stashed one: a build whose sources could not be had says so as well.
        spyreToolkit(told.toolkit)
        spyreNox(
            session: 'pipeline', environment: told.environment, seconds: 300,
            secrets: [SPYRE_CI_GITHUB_TOKEN: told.credentials], arguments: [
                'status', '--repository', told.repository, '--sha', told.commit, '--context', told.context,
                '--state', state, '--description', told.description ?: "${currentBuild.displayName}: ${result}",
                '--url', env.BUILD_URL,
            ])
    }
}
