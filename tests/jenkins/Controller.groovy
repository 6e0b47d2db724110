/**
 * Stands for a Jenkins controller with its agents: environment, agents with workspaces, results, and the faults that
 * a scenario wants. Agents are folders; branches of `parallel` run one after the other, so that a record is the same
 * every time.
 */
class Controller {

    static final List<String> RESULTS = ['SUCCESS', 'UNSTABLE', 'FAILURE', 'NOT_BUILT', 'ABORTED']

    final Map scenario
    final File scratch
    final Recorder recorder
    final Clock clock = new Clock()
    Steps steps
    final Map<String, PipelineScript> library = [:]
    final Map<String, String> globalEnv
    final List<Map<String, String>> envs = []
    final List<Map> agents = []
    final List<String> branches = []
    String result = 'SUCCESS'
    int agentCount
    // Whether somebody stopped the build: branches that would run at that moment never begin here.
    boolean stopping

    Controller(Map scenario, Recorder recorder) {
        this.scenario = scenario
        this.recorder = recorder
        scratch = new File(scenario.scratch as String)
        globalEnv = new LinkedHashMap<String, String>(scenario.env as Map)
    }

    /** A step, a step of the shared library, or `pipeline`. */
    Object call(String name, Object[] arguments, PipelineScript script) {
        if (name == 'pipeline') {
            return new Declarative(this, script).run(arguments[0] as Closure)
        }
        if (library.containsKey(name)) {
            return library[name].invokeMethod('call', arguments)
        }
        steps.call(name, arguments)
    }

    /** What a script sees without calling it. */
    Object named(String name) {
        switch (name) {
            case 'env': return new EnvView(this)
            case 'params': return new Params(scenario.params as Map)
            case 'currentBuild': return new Build(this)
            case 'scm': return [kind: 'scm']
            case 'docker': return new Docker(this)
        }
        if (library.containsKey(name)) {
            return library[name]
        }
        if (environment().containsKey(name)) {
            return environment()[name]
        }
        throw new Refused("No such property: ${name}")
    }

    Map<String, String> environment() {
        Map<String, String> whole = [:]
        whole.putAll(globalEnv)
        envs.each { one -> whole.putAll(one) }
        whole
    }

    Object withEnvironment(Map<String, String> more, Closure body) {
        envs << more
        try {
            return body()
        } finally {
            envs.remove(envs.size() - 1)
        }
    }

    /** Runs a body in a new agent's empty workspace. */
    Object onAgent(String label, Closure body) {
        agentCount += 1
        String name = "agent-${agentCount}"
        File workspace = new File(scratch, "agents/${name}/workspace")
        workspace.mkdirs()
        Map agent = [name: name, label: label, lost: false, folders: [workspace]]
        record(step: 'node', state: 'begin', label: label, agent: name)
        agents << agent
        try {
            return withEnvironment([NODE_NAME: name, WORKSPACE: workspace.path], body)
        } finally {
            agents.remove(agents.size() - 1)
            record(step: 'node', state: 'end', label: label, agent: name)
        }
    }

    /** The agent a step works on; refused outside of `node`, as Jenkins does it. */
    Map agentOf(String step) {
        if (!agents) {
            throw new Refused("${step}: there is no workspace here; surround it with node")
        }
        Map agent = agents.last()
        if (agent.lost) {
            throw new AgentLost("${step}: ${agent.name} is offline")
        }
        agent
    }

    File folder() {
        agents.last().folders.last()
    }

    /** Notes what happens, with where it does. */
    void record(Map event) {
        Map where = [branch: branches ? branches.last() : '', result: result]
        recorder.write(where + event)
    }

    void worsen(String other) {
        if (!RESULTS.contains(other)) {
            throw new Refused("there is no result ${other}; known: ${RESULTS.join(', ')}")
        }
        if (RESULTS.indexOf(other) > RESULTS.indexOf(result)) {
            result = other
        }
    }

    static String resultOf(Throwable trouble) {
        trouble instanceof Interrupted ? 'ABORTED' : 'FAILURE'
    }

    /** What the scenario wants of a step here: the fault's kind, or null. To take its time a step has to begin. */
    String fault(String step, Map told) {
        Map found = (scenario.faults as List<Map>).find { one ->
            one.times > 0 && (one.step ?: 'sh') == step &&
                (!one.branch || branches.any { it ==~ one.branch }) &&
                (!one.session || told.session ==~ one.session)
        }
        if (found == null) {
            return null
        }
        found.times -= 1
        record(step: 'fault', kind: found.kind, at: step, session: told.session)
        if (found.kind == 'wait') {
            clock.pass(found.minutes as long)
            return null
        }
        found.kind
    }

    /** What a fault does before or after its step. */
    void strike(String kind, String step) {
        switch (kind) {
            case 'fail': throw new StepFailed("${step} failed")
            case 'lose':
                agents.last().lost = true
                throw new AgentLost("${step}: ${agents.last().name} went away")
            case 'abort':
                stopping = true
                throw new Interrupted('Aborted by somebody')
            case 'hang':
                clock.hang(step)
                break
            default: throw new Refused("a scenario has no fault ${kind}")
        }
    }

}
