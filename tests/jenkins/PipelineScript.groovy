/** What a Jenkinsfile and a step of the shared library see: steps as methods, env, params and currentBuild. */
abstract class PipelineScript extends Script {

    Controller controller

    // Groovy's Script has a println of its own, and in Jenkins it is echo.
    @Override
    void println(Object value) {
        controller.call('echo', [String.valueOf(value)] as Object[], this)
    }

    Object methodMissing(String name, Object arguments) {
        controller.call(name, (Object[]) arguments, this)
    }

    Object propertyMissing(String name) {
        controller.named(name)
    }

    @Override
    void setProperty(String name, Object value) {
        throw new Refused("${name} = ${value}: a variable without `def` or a type is a field of the script")
    }

}
