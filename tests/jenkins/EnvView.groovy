/** `env`: what is not set is null; what is set holds for the rest of the build. */
class EnvView {

    private final Controller controller

    EnvView(Controller controller) {
        this.controller = controller
    }

    Object propertyMissing(String name) {
        controller.environment()[name]
    }

    void propertyMissing(String name, Object value) {
        controller.globalEnv[name] = value.toString()
        controller.record(step: 'env', name: name, value: value.toString())
    }

}
