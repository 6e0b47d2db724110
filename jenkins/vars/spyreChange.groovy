/** The pull request that a build is about, and what is known of its component; see spyreChange.txt. */
Map call() {
    List known = readJSON(text: libraryResource('components.json'), returnPojo: true)
    Map site = readJSON(text: libraryResource('site.json'), returnPojo: true)
    // A multibranch job has a job for each pull request: spyre/pr-<component>/PR-7.
    Map one = known.find { component -> env.JOB_NAME.endsWith("/pr-${component.component}/${env.JOB_BASE_NAME}") }
    if (!one) {
        error("The job ${env.JOB_NAME} is of no component in components.json")
    }
    if (!(env.CHANGE_ID ==~ /[1-9][0-9]{0,9}/) || env.CHANGE_TARGET != one.branch) {
        error("This job is for pull requests of ${one.repository} to ${one.branch}")
    }
    return [
        credentials: '', status_credentials: 'spyre-ci-github', builder: 'linux && spyre_pf_x0',
        device: 'linux && spyre_pf_x1', notify: '', number: env.CHANGE_ID, toolkit: site.toolkit,
    ] + one
}
