import groovy.json.JsonSlurperClassic
import org.codehaus.groovy.control.CompilerConfiguration

/*
 * Runs a Jenkinsfile under a recording DSL: `groovy pipeline.groovy SCENARIO.json`. The scenario names the Jenkinsfile,
 * the library's folder, a scratch folder, parameters, environment, credentials and faults; `record` takes what
 * happened, a JSON object a line.
 */
Map scenario = new JsonSlurperClassic().parse(new File(args[0]), 'UTF-8') as Map
Recorder recorder = new Recorder(new File(scenario.record as String))
Controller controller = new Controller(scenario, recorder)
CompilerConfiguration configuration = new CompilerConfiguration()
configuration.scriptBaseClass = 'PipelineScript'
GroovyShell shell = new GroovyShell(getClass().classLoader, new Binding(), configuration)
Closure loaded = { File file ->
    PipelineScript script = shell.parse(file.getText('UTF-8'), file.name.replaceAll(/\W/, '_') + '.groovy') as PipelineScript
    script.setController(controller)
    script
}
new File(scenario.library as String, 'vars').listFiles().findAll { it.name.endsWith('.groovy') }.sort().each { file ->
    controller.library[file.name - '.groovy'] = loaded(file)
}
try {
    if (scenario.jenkinsfile) {
        loaded(new File(scenario.jenkinsfile as String)).run()
    } else {
        // One call of a step, for its own tests.
        loaded(new File(scenario.script as String)).run()
    }
    recorder.write(step: 'finished', result: controller.result)
} catch (Refused refused) {
    recorder.write(step: 'refused', message: refused.message)
} catch (StepFailed | AgentLost | Interrupted trouble) {
    recorder.write(step: 'finished', result: Controller.resultOf(trouble), message: trouble.message)
}
