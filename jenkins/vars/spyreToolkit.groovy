/** Checks the toolkit out into toolkit/; see spyreToolkit.txt. */
void call(Map given) {
    Map told = spyreArguments('spyreToolkit', [url: '', commit: '', credentials: ''], given)
    dir('toolkit') {
        // All that a commit or a tag may be of.
        Map remote = [
            url: told.url, refspec: '+refs/heads/*:refs/remotes/origin/* +refs/tags/*:refs/tags/*',
        ] + (told.credentials ? [credentialsId: told.credentials] : [:])
        checkout(told.url ? scmGit(branches: [[name: told.commit]], userRemoteConfigs: [remote]) : scm)
    }
}
