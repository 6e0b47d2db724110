/** Gives the head of a pull request whose author has contributed before; see spyreHead.txt. */
String call(Map given) {
    Map told = spyreArguments('spyreHead', [
        label: null, minutes: 15, toolkit: null, repository: null, number: null, credentials: null,
        environment: [:],
    ], given)
    // Who may start a build by hand has looked at what it is of.
    List people = currentBuild.getBuildCauses('hudson.model.Cause$UserIdCause')
    String head = ''
    spyreNode(label: told.label, minutes: told.minutes, sources: []) {
        spyreToolkit(told.toolkit)
        head = spyreNox(
            session: 'pipeline', environment: told.environment, lastLine: true,
            secrets: [SPYRE_CI_GITHUB_TOKEN: told.credentials],
            arguments: ['head', '--repository', told.repository, '--pull-request', told.number] +
                (people ? ['--of-anybody'] : []))
    }
    return head
}
