/** The pull request that a build is about, as its job knows it; see spyreChange.txt. */
Map call(Map given) {
    Map told = spyreArguments('spyreChange', [number: null, commit: null, repository: null, branch: null], given)
    List known = readJSON(text: libraryResource('components.json'), returnPojo: true)
    Map one = known.find { component -> "pr-${component.component}" == env.JOB_BASE_NAME }
    if (!one) {
        error("The job ${env.JOB_BASE_NAME} is of no component in components.json")
    }
    if (!(told.number ==~ /[1-9][0-9]{0,9}/)) {
        error('PULL_REQUEST is no number')
    }
    if (!(told.commit ==~ /[0-9a-f]{40}/)) {
        error('HEAD_SHA is no commit by its whole name')
    }
    if ([told.repository, told.branch] != [one.repository, one.branch]) {
        error("This job is for pull requests of ${one.repository} to ${one.branch}")
    }
    return [credentials: '', status_credentials: 'spyre-ci-github'] + one
}
