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
            git('-c', 'user.name=Jenkins', '-c', 'user.email=nobody@nowhere', 'merge', '--quiet', '--no-edit',
                source.base)
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
        Map merge = (scm.extensions ?: []).find { it['$class'] == 'PreBuildMerge' }
        [
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
        builder.environment().putAll(controller.scenario.process_env as Map)
        Process process = builder.redirectErrorStream(true).start()
        process.outputStream.close()
        String said = process.inputStream.text
        if (process.waitFor()) {
            throw new StepFailed("${line.join(' ')}: ${said}")
        }
        said
    }

}
