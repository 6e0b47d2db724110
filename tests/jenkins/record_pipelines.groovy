import groovy.json.JsonSlurperClassic
import org.codehaus.groovy.control.CompilerConfiguration

/*
 * Runs Jenkinsfiles under a recording DSL: `groovy record_pipelines.groovy SCENARIO.json…`. A scenario names the
 * Jenkinsfile, the library's folder, a scratch folder, parameters, environment, credentials and faults; its `record`
 * takes what happened, a JSON object a line.
 */
args.each { name ->
    Map scenario = new JsonSlurperClassic().parse(new File(name), 'UTF-8') as Map
    Recorder recorder = new Recorder(new File(scenario.record as String))
    Controller controller = new Controller(scenario, recorder)
    controller.steps = new Steps(controller)
    CompilerConfiguration configuration = new CompilerConfiguration()
    configuration.scriptBaseClass = 'PipelineScript'
    GroovyShell shell = new GroovyShell(getClass().classLoader, new Binding(), configuration)
    Closure<PipelineScript> load = { File file ->
        String called = file.name.replaceAll(/\W/, '_') + '.groovy'
        PipelineScript script = shell.parse(file.getText('UTF-8'), called) as PipelineScript
        // A property of a script would be a variable of its binding.
        script.setController(controller)
        script
    }
    new File(scenario.library as String, 'vars').listFiles().findAll { it.name.endsWith('.groovy') }.each { file ->
        controller.library[file.name - '.groovy'] = load(file)
    }
    try {
        load(new File(scenario.jenkinsfile as String)).run()
        recorder.write(step: 'finished', result: controller.result)
    } catch (Refused refused) {
        recorder.write(step: 'refused', message: refused.message)
    } catch (StepFailed | AgentLost | Interrupted trouble) {
        recorder.write(step: 'finished', result: Controller.resultOf(trouble), message: trouble.message)
    }
}
