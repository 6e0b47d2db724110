import groovy.json.JsonSlurperClassic
import org.codehaus.groovy.control.CompilerConfiguration
import org.codehaus.groovy.control.MultipleCompilationErrorsException

/*
 * Runs Jenkinsfiles under a recording DSL: `groovy record_pipelines.groovy SCENARIO.json…`. A scenario names the
 * Jenkinsfile, the library's folder, a scratch folder, parameters, environment, credentials and faults; its `record`
 * takes what happened, a JSON object a line.
 */
CompilerConfiguration configuration = new CompilerConfiguration()
configuration.scriptBaseClass = 'PipelineScript'
configuration.addCompilationCustomizers(new Suspendable())
GroovyClassLoader loader = new GroovyClassLoader(getClass().classLoader, configuration)
Map<String, Class> compiled = [:]

// A script of a file, which is compiled once for all scenarios.
Closure<PipelineScript> load = { File file, Controller controller ->
    Class type = compiled[file.path]
    if (type == null) {
        String called = file.path.replaceAll(/\W/, '_') + '.groovy'
        type = compiled[file.path] = loader.parseClass(file.getText('UTF-8'), called)
    }
    PipelineScript script = type.newInstance() as PipelineScript
    // A property of a script would be a variable of its binding.
    script.setController(controller)
    script
}

args.each { name ->
    Map scenario = new JsonSlurperClassic().parse(new File(name), 'UTF-8') as Map
    Recorder recorder = new Recorder(new File(scenario.record as String))
    Controller controller = new Controller(scenario, recorder)
    controller.steps = new Steps(controller)
    File steps = new File(scenario.library as String, 'vars')
    try {
        steps.listFiles().findAll { it.name.endsWith('.groovy') }.each { file ->
            controller.library[file.name - '.groovy'] = load(file, controller)
        }
        load(new File(scenario.jenkinsfile as String), controller).run()
        recorder.write(step: 'finished', result: controller.result)
    } catch (Refused | MultipleCompilationErrorsException | MissingMethodException | MissingPropertyException refused) {
        recorder.write(step: 'refused', message: refused.message)
    } catch (StepFailed | AgentLost | Interrupted trouble) {
        recorder.write(step: 'finished', result: Controller.resultOf(trouble), message: trouble.message)
    }
}
