/** A declarative pipeline: read as a whole first, as Jenkins does, so that what is never reached is checked too. */
class Declarative {

    static final List<String> POST = ['always', 'changed', 'fixed', 'regression', 'aborted', 'failure', 'success',
                                      'unstable', 'unsuccessful', 'cleanup']
    static final List<String> PIPELINE = ['agent', 'options', 'environment', 'stages', 'post']
    static final List<String> STAGE = ['agent', 'environment', 'options', 'parallel', 'failFast', 'post', 'stages',
                                       'steps', 'when']
    static final List<String> OPTIONS = ['buildDiscarder', 'disableConcurrentBuilds', 'disableResume', 'lock',
                                         'preserveStashes', 'quietPeriod', 'retry', 'skipDefaultCheckout',
                                         'skipStagesAfterUnstable', 'timeout', 'timestamps', 'logRotator']
    static final List<String> STAGE_OPTIONS = ['lock', 'retry', 'skipDefaultCheckout', 'timeout', 'timestamps']
    static final List<String> WHEN = ['beforeAgent', 'expression']

    private final Controller controller
    private final PipelineScript script

    Declarative(Controller controller, PipelineScript script) {
        this.controller = controller
        this.script = script
    }

    Object run(Closure body) {
        Map whole = section('pipeline', PIPELINE, body).told
        require('pipeline', whole, ['agent', 'stages'])
        Map model = [
            agent: agentOf(whole.agent), options: optionsOf('options', OPTIONS, whole.options),
            environment: whole.environment, post: postOf(whole.post), stages: stagesOf(whole.stages.first() as Closure),
        ]
        controller.record(step: 'pipeline', options: model.options.keySet() as List)
        try {
            inEnvironment(model.environment) {
                wrapped(model.options) {
                    onAgent(model.agent) {
                        Throwable trouble = null
                        try {
                            runStages(model.stages as List<Map>)
                        } catch (StepFailed | AgentLost | Interrupted one) {
                            trouble = one
                        }
                        runPost('pipeline', model.post as Map, trouble)
                    }
                }
            }
        } catch (StepFailed | AgentLost | Interrupted trouble) {
            controller.worsen(Controller.resultOf(trouble))
            controller.record(step: 'trouble', message: trouble.message)
        }
        null
    }

    private void runStages(List<Map> stages) {
        Throwable first = null
        stages.each { stage ->
            if (first) {
                controller.record(step: 'stage', state: 'skipped', name: stage.name, because: 'earlier failure')
                return
            }
            first = runStage(stage)
        }
        if (first) {
            throw first
        }
    }

    /** Runs a stage: what went wrong in it, or null. */
    private Throwable runStage(Map stage) {
        if (!holds(stage)) {
            controller.record(step: 'stage', state: 'skipped', name: stage.name, because: 'when')
            return null
        }
        controller.record(step: 'stage', state: 'begin', name: stage.name)
        controller.branches << (stage.name as String)
        Throwable trouble = null
        try {
            inEnvironment(stage.environment) {
                wrapped(stage.options as Map) {
                    onAgent(stage.agent) {
                        runBody(stage)
                    }
                }
            }
        } catch (StepFailed | AgentLost | Interrupted one) {
            trouble = one
            controller.worsen(Controller.resultOf(one))
        }
        controller.branches.remove(controller.branches.size() - 1)
        controller.record(step: 'stage', state: 'end', name: stage.name, trouble: trouble?.message)
        trouble
    }

    private void runBody(Map stage) {
        Throwable trouble = null
        try {
            if (stage.steps) {
                asScript(stage.steps as Closure)()
            } else if (stage.stages) {
                runStages(stage.stages as List<Map>)
            } else {
                runParallel(stage)
            }
        } catch (StepFailed | AgentLost | Interrupted one) {
            trouble = one
        }
        runPost(stage.name as String, stage.post as Map, trouble)
    }

    private void runParallel(Map stage) {
        List<Throwable> troubles = []
        controller.clock.sideBySide(stage.parallel as List<Map>) { Map one ->
            Throwable trouble = controller.stopping ? new Interrupted('Aborted by somebody') : runStage(one)
            troubles += trouble ? [trouble] : []
        }
        if (troubles) {
            throw troubles.find { it instanceof Interrupted } ?: troubles.first()
        }
    }

    /** Runs each condition that holds; what one of them throws does not keep the others from running. */
    private void runPost(String scope, Map post, Throwable trouble) {
        Throwable first = trouble
        if (trouble) {
            controller.worsen(Controller.resultOf(trouble))
        }
        controller.stopping = false
        POST.each { condition ->
            if (post.containsKey(condition) && applies(condition)) {
                controller.record(step: 'post', scope: scope, condition: condition)
                try {
                    asScript(post[condition] as Closure)()
                } catch (StepFailed | AgentLost | Interrupted one) {
                    controller.record(step: 'trouble', message: one.message)
                    controller.worsen(Controller.resultOf(one))
                    first = first ?: one
                }
            }
        }
        if (first) {
            throw first
        }
    }

    private boolean applies(String condition) {
        switch (condition) {
            case ['always', 'cleanup']: return true
            case 'unsuccessful': return controller.result != 'SUCCESS'
            // Of a build there was none before, so everything has changed and nothing was fixed.
            case 'changed': return true
            case ['fixed', 'regression']: return false
            default: return condition.toUpperCase() == controller.result
        }
    }

    private boolean holds(Map stage) {
        stage.when.every { directive, given -> directive == 'beforeAgent' || asScript(given.first() as Closure)() }
    }

    private Object wrapped(Map options, Closure body) {
        Closure whole = body
        options.each { name, given ->
            if (name in ['timeout', 'retry', 'lock']) {
                Closure inner = whole
                whole = { -> controller.steps.call(name as String, (given + [inner]) as Object[]) }
            }
        }
        whole()
    }

    private Object onAgent(Object agent, Closure body) {
        agent in [null, 'none'] ? body() : controller.onAgent(agent.toString(), body)
    }

    private Object inEnvironment(Object given, Closure body) {
        if (!given) {
            return body()
        }
        Map values = new Environment(controller).read(given.first() as Closure)
        controller.withEnvironment(values as Map<String, String>, body)
    }

    private Closure asScript(Closure body) {
        Closure block = (Closure) body.clone()
        block.delegate = script
        block.resolveStrategy = Closure.DELEGATE_ONLY
        block
    }

    private Section section(String name, List<String> known, Closure body) {
        new Section(name, known, controller).read(body)
    }

    private static void require(String name, Map told, List<String> needed) {
        List<String> missing = needed.findAll { !told.containsKey(it) }
        if (missing) {
            throw new Refused("${name} has no ${missing.join(', ')}")
        }
    }

    private List<Map> stagesOf(Closure body) {
        Section read = new Section('stages', ['stage'], controller)
        read.several = true
        read.read(body)
        List<List> stages = (read.told.stage ?: []) as List<List>
        if (!stages) {
            throw new Refused('stages holds no stage')
        }
        stages.collect { given -> stageOf(given[0].toString(), given[1] as Closure) }
    }

    private Map stageOf(String name, Closure body) {
        Map told = section("stage('${name}')", STAGE, body).told
        if (['steps', 'stages', 'parallel'].count { told.containsKey(it) } != 1) {
            throw new Refused("stage('${name}') wants one of steps, stages and parallel")
        }
        [
            name: name, agent: told.agent ? agentOf(told.agent) : null, environment: told.environment,
            options: optionsOf("options of stage('${name}')", STAGE_OPTIONS, told.options), post: postOf(told.post),
            when: told.when ? section('when', WHEN, told.when.first() as Closure).told : [:],
            steps: told.steps?.first(),
            stages: told.stages ? stagesOf(told.stages.first() as Closure) : null,
            parallel: told.parallel ? stagesOf(told.parallel.first() as Closure) : null,
        ]
    }

    private Map postOf(Object given) {
        Map told = given ? section('post', POST, given.first() as Closure).told : [:]
        told.collectEntries { condition, blocks -> [(condition): blocks.first()] }
    }

    private Map optionsOf(String name, List<String> known, Object given) {
        if (!given) {
            return [:]
        }
        Section read = new Section(name, known, controller)
        read.several = true
        read.read(given.first() as Closure)
        Map told = read.told.findAll { it.key != 'logRotator' }.collectEntries { key, lines -> [(key): lines.first()] }
        told.each { key, words ->
            if (key in ['timeout', 'retry', 'lock']) {
                Known.arguments(key, (words + [{ }]) as Object[])
            }
        }
        told
    }

    private Object agentOf(Object given) {
        Object first = given.first()
        if (first instanceof Closure) {
            return section('agent', ['label'], first as Closure).told.label.first().toString()
        }
        if (!(first in ['none', 'any'])) {
            throw new Refused("agent ${first}")
        }
        first
    }

}
