import groovy.json.JsonException
import groovy.json.JsonSlurper
import java.util.concurrent.TimeUnit
import org.xml.sax.SAXException

/** The steps themselves: with files and processes where they have any, noted in each case. */
class Steps {

    // No line of a test takes as long; what does hangs.
    static final int SH_MINUTES = 8

    private final Controller controller
    private int lines

    Steps(Controller controller) {
        this.controller = controller
    }

    Object call(String name, Object[] given) {
        Map told = Known.arguments(name, given)
        controller.clock.check(name)
        "${name}Step"(told)
    }

    Object shStep(Map told) {
        controller.agentOf('sh')
        Map<String, String> environment = controller.environment()
        String kind = controller.fault('sh', [session: environment.SPYRE_NOX_SESSION ?: ''])
        if (kind && !kind.endsWith('_after')) {
            controller.strike(kind, 'sh')
        }
        Map ended = execute(told.script as String, environment)
        controller.record(
            step: 'sh', script: told.script, label: told.label, code: ended.code, folder: controller.folder().path,
            session: environment.SPYRE_NOX_SESSION, words: environment.SPYRE_NOX_ARGUMENTS?.readLines(),
            out: end(ended.out), err: end(ended.err))
        if (kind) {
            controller.strike(kind - '_after', 'sh')
        }
        if (told.returnStatus) {
            return ended.code
        }
        if (ended.code) {
            throw new StepFailed("script returned exit code ${ended.code}")
        }
        told.returnStdout ? ended.out : null
    }

    /** What the scenario has happen when a step begins. */
    private void meet(String step, Map told = [:]) {
        String kind = controller.fault(step, told)
        if (kind) {
            controller.strike(kind, step)
        }
    }

    private static String end(String text) {
        text.length() > 4000 ? text.substring(text.length() - 4000) : text
    }

    private Map execute(String script, Map<String, String> environment) {
        lines += 1
        File file = new File(controller.scratch, "line-${lines}.sh")
        file.text = script
        File out = new File(file.path + '.out')
        File err = new File(file.path + '.err')
        ProcessBuilder builder = new ProcessBuilder('bash', '-xe', file.path)
        builder.directory(controller.folder())
        builder.environment().clear()
        builder.environment().putAll((controller.scenario.process_env as Map) + environment)
        Process process = builder.redirectOutput(out).redirectError(err)
            .redirectInput(new File('/dev/null')).start()
        if (!process.waitFor(SH_MINUTES, TimeUnit.MINUTES)) {
            process.destroy()
            throw new Refused("a line took more than ${SH_MINUTES} minutes: ${script}")
        }
        [code: process.exitValue(), out: out.text, err: err.text]
    }

    Object echoStep(Map told) {
        controller.record(step: 'echo', message: told.message)
    }

    Object errorStep(Map told) {
        throw new StepFailed(told.message.toString())
    }

    Object unstableStep(Map told) {
        controller.worsen('UNSTABLE')
        controller.record(step: 'unstable', message: told.message)
    }

    Object scriptStep(Map told) {
        told.body()
    }

    Object timestampsStep(Map told) {
        told.body()
    }

    Object stageStep(Map told) {
        throw new Refused("stage('${told.name}') inside of steps: stages are the Jenkinsfile's")
    }

    Object nodeStep(Map told) {
        meet('node')
        controller.onAgent(told.label.toString(), told.body as Closure)
    }

    Object dirStep(Map told) {
        Map agent = controller.agentOf('dir')
        File folder = new File(controller.folder(), told.path.toString())
        folder.mkdirs()
        agent.folders << folder
        try {
            return told.body()
        } finally {
            agent.folders.remove(agent.folders.size() - 1)
        }
    }

    Object deleteDirStep(Map told) {
        assert told.body == null
        controller.agentOf('deleteDir')
        controller.folder().deleteDir()
        controller.folder().mkdirs()
        controller.record(step: 'deleteDir')
    }

    Object withEnvStep(Map told) {
        Map<String, String> more = [:]
        told.overrides.each { one ->
            String text = one
            if (!text.contains('=')) {
                throw new Refused("withEnv: ${text} has no =")
            }
            more[text.substring(0, text.indexOf('='))] = text.substring(text.indexOf('=') + 1)
        }
        controller.withEnvironment(more, told.body as Closure)
    }

    Object withCredentialsStep(Map told) {
        Map<String, String> more = [:]
        told.bindings.each { Map one ->
            String secret = controller.scenario.credentials[one.credentialsId]
            if (secret == null) {
                throw new StepFailed("Could not find credentials entry with ID '${one.credentialsId}'")
            }
            controller.recorder.hide(secret)
            more[one.variable as String] = secret
        }
        controller.record(step: 'withCredentials', ids: told.bindings*.credentialsId)
        controller.withEnvironment(more, told.body as Closure)
    }

    Object stringStep(Map told) {
        told
    }

    Object agentStep(Map told) {
        told + [condition: 'agent']
    }

    Object nonresumableStep(Map told) {
        told + [condition: 'nonresumable']
    }

    Object scmGitStep(Map told) {
        told + [kind: 'git']
    }

    Object retryStep(Map told) {
        int count = told.count as int
        boolean onLoss = !told.conditions || told.conditions*.condition.contains('agent')
        for (int attempt = 1; ; attempt++) {
            try {
                return told.body()
            } catch (AgentLost lost) {
                if (!onLoss || attempt >= count) {
                    throw lost
                }
                controller.record(step: 'retry', attempt: attempt + 1, because: lost.message)
            } catch (StepFailed failed) {
                if (told.conditions || attempt >= count) {
                    throw failed
                }
                controller.record(step: 'retry', attempt: attempt + 1, because: failed.message)
            }
        }
    }

    Object timeoutStep(Map told) {
        String unit = told.unit ?: 'MINUTES'
        if (!(unit in Known.UNITS) || (told.time as int) < 1) {
            throw new Refused("timeout(time: ${told.time}, unit: ${unit})")
        }
        controller.record(step: 'timeout', time: told.time as int, unit: unit)
        long seconds = TimeUnit.valueOf(unit).toSeconds(told.time as long)
        controller.clock.within(Math.max(1, TimeUnit.SECONDS.toMinutes(seconds)), told.body as Closure)
    }

    Object lockStep(Map told) {
        if (!told.resource == !told.label) {
            throw new Refused('lock wants either a resource or a label')
        }
        int quantity = (told.quantity ?: 0) as int
        if (told.label && quantity < 1) {
            throw new Refused("lock(label: '${told.label}') without a quantity locks all there are")
        }
        String name = told.label ?: told.resource
        meet('lock')
        controller.record(step: 'lock', label: name, quantity: quantity)
        Map more = told.variable ? [(told.variable): (1..quantity).collect { "${name}-${it}" }.join(',')] : [:]
        try {
            return controller.withEnvironment(more, told.body as Closure)
        } finally {
            controller.record(step: 'unlock', label: name, quantity: quantity)
        }
    }

    Object catchErrorStep(Map told) {
        try {
            return told.body()
        } catch (StepFailed | AgentLost | Interrupted trouble) {
            if (trouble instanceof Interrupted && told.catchInterruptions == false) {
                throw trouble
            }
            controller.worsen((told.buildResult ?: 'FAILURE') as String)
            controller.record(step: 'caught', message: told.message ?: '', trouble: trouble.message)
        }
    }

    Object parallelStep(Map told) {
        Map branches = new LinkedHashMap(told.branches as Map)
        boolean failFast = branches.remove('failFast') ?: false
        List<Throwable> troubles = []
        controller.clock.sideBySide(branches.entrySet()) { Map.Entry one ->
            if (!(one.value instanceof Closure)) {
                throw new Refused("parallel: ${one.key} is no branch")
            }
            if (!(failFast && troubles)) {
                Throwable trouble = branch(one.key.toString(), one.value as Closure)
                troubles += trouble ? [trouble] : []
            }
        }
        Throwable worst = troubles.find { it instanceof Interrupted } ?: troubles.find()
        if (worst) {
            throw worst
        }
    }

    /** Runs a branch: what went wrong in it, or null. */
    Throwable branch(String name, Closure body) {
        controller.branches << name
        controller.record(step: 'branch', state: 'begin', name: name)
        Throwable trouble = null
        try {
            if (controller.stopping) {
                throw new Interrupted('Aborted by somebody')
            }
            body()
        } catch (StepFailed | AgentLost | Interrupted one) {
            trouble = one
        }
        controller.record(step: 'branch', state: 'end', name: name, trouble: trouble?.message)
        controller.branches.remove(controller.branches.size() - 1)
        trouble
    }

    Object stashStep(Map told) {
        controller.agentOf('stash')
        boolean excludes = told.useDefaultExcludes == null ? true : told.useDefaultExcludes
        List<String> names = Globs.find(controller.folder(), (told.includes ?: '**') as String, excludes)
        if (!names && !told.allowEmpty) {
            throw new StepFailed("No files included in stash '${told.name}'")
        }
        File stashed = new File(controller.scratch, "stashes/${told.name}")
        stashed.deleteDir()
        stashed.mkdirs()
        Globs.copy(controller.folder(), stashed, names)
        controller.record(step: 'stash', name: told.name.toString(), files: names.size())
    }

    Object unstashStep(Map told) {
        controller.agentOf('unstash')
        File stashed = new File(controller.scratch, "stashes/${told.name}")
        if (!stashed.isDirectory()) {
            throw new StepFailed("No such saved stash '${told.name}'")
        }
        Globs.copy(stashed, controller.folder(), Globs.find(stashed, '**', false))
        controller.record(step: 'unstash', name: told.name.toString())
    }

    Object junitStep(Map told) {
        controller.agentOf('junit')
        List<String> names = Globs.find(controller.folder(), told.testResults as String)
        if (!names && !told.allowEmptyResults) {
            throw new StepFailed('No test report files were found. Configuration error?')
        }
        controller.record(step: 'junit', files: names)
        boolean failed = names.any { name -> failedIn(new File(controller.folder(), name)) }
        if (failed && !told.skipMarkingBuildUnstable) {
            controller.worsen('UNSTABLE')
        }
    }

    private static boolean failedIn(File file) {
        try {
            return new XmlSlurper(false, false).parse(file).'**'.any { node -> node.name() in ['failure', 'error'] }
        } catch (SAXException broken) {
            return true
        }
    }

    Object archiveArtifactsStep(Map told) {
        controller.agentOf('archiveArtifacts')
        meet('archiveArtifacts')
        boolean follows = told.followSymlinks == null ? true : told.followSymlinks
        List<String> names = Globs.find(controller.folder(), told.artifacts as String, true, follows)
        if (!names && !told.allowEmptyArchive) {
            throw new StepFailed("No artifacts found that match the file pattern \"${told.artifacts}\"")
        }
        Globs.copy(controller.folder(), new File(controller.scratch, 'archive'), names)
        controller.record(step: 'archiveArtifacts', files: names)
    }

    Object readFileStep(Map told) {
        controller.agentOf('readFile')
        readable(told.file as String).getText('UTF-8')
    }

    Object fileExistsStep(Map told) {
        controller.agentOf('fileExists')
        new File(controller.folder(), told.file as String).exists()
    }

    Object writeFileStep(Map told) {
        controller.agentOf('writeFile')
        new File(controller.folder(), told.file as String).setText(told.text as String, 'UTF-8')
    }

    Object readJSONStep(Map told) {
        if (!told.file == !told.text) {
            throw new Refused('readJSON wants either a file or a text')
        }
        String text = told.text
        if (told.file) {
            controller.agentOf('readJSON')
            text = readable(told.file as String).getText('UTF-8')
        }
        if (!told.returnPojo) {
            throw new Refused('readJSON without returnPojo gives objects that no branch can keep')
        }
        try {
            return ordered(new JsonSlurper().parseText(text))
        } catch (JsonException | IllegalArgumentException broken) {
            throw new StepFailed("readJSON: ${broken.message}")
        }
    }

    private static Object ordered(Object value) {
        if (value instanceof Map) {
            return value.collectEntries { key, one -> [(key): ordered(one)] }
        }
        value instanceof List ? value.collect { one -> ordered(one) } : value
    }

    private File readable(String name) {
        File file = new File(controller.folder(), name)
        if (!file.isFile()) {
            throw new StepFailed("java.nio.file.NoSuchFileException: ${name}")
        }
        file
    }

    Object libraryResourceStep(Map told) {
        String name = told.resource
        String text = controller.scenario.resources[name]
        File file = new File(controller.scenario.library as String, "resources/${name}")
        if (text == null && !file.isFile()) {
            throw new StepFailed("No such library resource ${name} could be found.")
        }
        text ?: file.getText('UTF-8')
    }

    Object mailStep(Map told) {
        controller.record(step: 'mail', to: told.to, subject: told.subject.toString(), body: told.body.toString())
    }

    Object checkoutStep(Map told) {
        controller.agentOf('checkout')
        // Git's repositories are told apart by the last part of their addresses.
        String which = told.scm.kind == 'scm' ? 'scm' : told.scm.userRemoteConfigs.first().url.tokenize('/').last()
        meet('checkout', [session: which])
        new Checkout(controller).of(told.scm as Map)
    }

}
