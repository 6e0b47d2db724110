/** Checks out the toolkit and a project, once for the whole build; see spyreSources.txt. */
void call(Map given) {
    Map told = spyreArguments('spyreSources', [
        label: null, minutes: 30, url: '', refspec: '', commit: '', base: '', credentials: '',
        toolkit: '', toolkitCommit: '',
    ], given)
    spyreNode(label: told.label, minutes: told.minutes, sources: []) {
        dir('toolkit') {
            if (told.toolkit) {
                // All that a commit or a tag may be of: the job's own source is the project's.
                checkout(scmGit(
                    branches: [[name: told.toolkitCommit]],
                    userRemoteConfigs: [[
                        url: told.toolkit,
                        refspec: '+refs/heads/*:refs/remotes/origin/* +refs/tags/*:refs/tags/*',
                    ]]))
            } else {
                checkout(scm)
            }
        }
        stash(name: 'toolkit', includes: 'toolkit/**', useDefaultExcludes: false)
        dir('project') {
            if (told.toolkit) {
                checkout(scm)
            } else if (told.url) {
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
        boolean none = !told.url && !told.toolkit
        stash(name: 'project', includes: 'project/**', useDefaultExcludes: false, allowEmpty: none)
    }
}
