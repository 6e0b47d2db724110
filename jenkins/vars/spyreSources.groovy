/** Checks out the toolkit and a project, once for the whole build; see spyreSources.txt. */
void call(Map given) {
    Map told = spyreArguments('spyreSources', [
        label: null, minutes: 30, url: '', refspec: '', commit: '', base: '', credentials: '',
    ], given)
    spyreNode(label: told.label, minutes: told.minutes, sources: []) {
        dir('toolkit') {
            checkout(scm)
        }
        stash(name: 'toolkit', includes: 'toolkit/**', useDefaultExcludes: false)
        dir('project') {
            if (told.url) {
                Map remote = [url: told.url, refspec: told.refspec]
                checkout(scmGit(
                    branches: [[name: told.commit]],
                    userRemoteConfigs: [remote + (told.credentials ? [credentialsId: told.credentials] : [:])],
                    // A merge is a commit, which Git makes for somebody only.
                    extensions: told.base ? [
                        [$class: 'UserIdentity', name: 'spyre-ci', email: 'spyre-ci@localhost'],
                        [$class: 'PreBuildMerge', options: [mergeRemote: 'origin', mergeTarget: told.base]],
                    ] : []))
            }
        }
        stash(name: 'project', includes: 'project/**', useDefaultExcludes: false, allowEmpty: !told.url)
    }
}
