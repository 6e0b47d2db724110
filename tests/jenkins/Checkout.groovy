/** `checkout`, by Git: the job's own source, or what scmGit describes. */
class Checkout {

    private final Controller controller

    Checkout(Controller controller) {
        this.controller = controller
    }

    Map of(Map scm) {
        Map source = scm.kind == 'scm' ? controller.scenario.scm as Map : asSource(scm)
        git('init', '--quiet', '.')
        git(*(['fetch', '--quiet', source.url] + source.refspecs))
        git('checkout', '--quiet', '--detach', source.commit ?: 'FETCH_HEAD')
        if (source.base) {
            // As on an agent that nobody gave an identity: there Git guesses none.
            List<String> who = ['-c', 'user.useConfigOnly=true'] + (source.identity as List<String>)
            git(*(who + ['merge', '--quiet', '--no-edit', source.base]))
        }
        String commit = git('rev-parse', 'HEAD').trim()
        controller.record(step: 'checkout', scm: scm.kind, url: source.url, commit: commit, merged: source.base)
        [GIT_COMMIT: commit, GIT_URL: source.url]
    }

    private Map asSource(Map scm) {
        Map remote = scm.userRemoteConfigs.first()
        List<String> unknown = (remote.keySet() - ['url', 'refspec', 'credentialsId', 'name']) as List
        if (unknown) {
            throw new Refused("userRemoteConfigs has no ${unknown}")
        }
        if (remote.credentialsId && !controller.scenario.credentials.containsKey(remote.credentialsId)) {
            throw new StepFailed("there are no credentials ${remote.credentialsId}")
        }
        Map<String, Map> extensions = (scm.extensions ?: []).collectEntries { Map one -> [(one['$class']): one] }
        List<String> others = (extensions.keySet() - ['PreBuildMerge', 'UserIdentity']) as List
        if (others) {
            throw new Refused("scmGit: there is no extension ${others}")
        }
        Map merge = extensions.PreBuildMerge
        Map identity = extensions.UserIdentity
        [
            identity: identity ? ['-c', "user.name=${identity.name}", '-c', "user.email=${identity.email}"]*.toString()
                : [],
            url: remote.url.toString(),
            refspecs: remote.refspec.toString().split(' ') as List,
            commit: scm.branches.first().name.toString(),
            base: merge ? "refs/remotes/${merge.options.mergeRemote}/${merge.options.mergeTarget}".toString() : null,
        ]
    }

    private String git(String... words) {
        List<String> line = ['git'] + (words as List)
        ProcessBuilder builder = new ProcessBuilder(line)
        builder.directory(controller.folder())
        Map<String, String> environ = new LinkedHashMap<String, String>(controller.scenario.process_env as Map)
        builder.environment().clear()
        builder.environment().putAll(environ.findAll { name, value -> !(name =~ /^GIT_(AUTHOR|COMMITTER)_/) })
        Process process = builder.redirectErrorStream(true).start()
        process.outputStream.close()
        String said = process.inputStream.text
        if (process.waitFor()) {
            throw new StepFailed("${line.join(' ')}: ${said}")
        }
        said
    }

}
