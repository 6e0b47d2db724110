/** Says once how a build ended; see spyreNotify.txt. */
void call(Map given) {
    Map told = spyreArguments('spyreNotify', [to: null], given)
    String result = currentBuild.currentResult
    if (!told.to) {
        echo("Nobody is notified of ${result}: there is no address")
        return
    }
    // A mail server that is away changes no build's result.
    catchError(buildResult: 'SUCCESS', stageResult: 'UNSTABLE', message: 'nobody was notified') {
        mail(
            to: told.to,
            subject: "${env.JOB_NAME} ${currentBuild.displayName}: ${result}",
            body: "${env.BUILD_URL}\n")
    }
}
