/** Checks out the toolkit and a project, once for the whole build; see spyreSources.txt. */
void call(Map given) {
    Map told = spyreArguments('spyreSources', [
        label: null, minutes: 30, toolkit: [:], url: '', refspec: '', commit: '', base: '', credentials: '',
    ], given)
    spyreNode(label: told.label, minutes: told.minutes, sources: []) {
        spyreToolkit(told.toolkit)
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
            } else if (told.toolkit) {
                checkout(scm)
            }
        }
        boolean none = !told.url && !told.toolkit
        stash(name: 'project', includes: 'project/**', useDefaultExcludes: false, allowEmpty: none)
    }
}
