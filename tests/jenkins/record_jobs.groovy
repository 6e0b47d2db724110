import groovy.json.JsonOutput
import groovy.json.JsonSlurperClassic
import org.codehaus.groovy.control.CompilerConfiguration

/*
 * Runs scripts of jobs under a recording DSL: `groovy record_jobs.groovy INPUT.json`. The input names the workspace,
 * the scripts, the seed job's parameters and the file `out`, which takes what the scripts make, or why one is refused.
 */
Map input = new JsonSlurperClassic().parse(new File(args[0]), 'UTF-8') as Map
List<Map> made = []
CompilerConfiguration configuration = new CompilerConfiguration()
configuration.scriptBaseClass = 'JobScript'
Map answer = [made: made]
try {
    input.scripts.each { name ->
        Binding binding = new Binding((input.parameters as Map) + [made: made, workspace: input.workspace])
        new GroovyShell(getClass().classLoader, binding, configuration).parse(new File(name as String)).run()
    }
} catch (Refused refused) {
    answer.refused = refused.message
}
new File(input.out as String).setText(JsonOutput.toJson(answer), 'UTF-8')
