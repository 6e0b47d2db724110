/** The block `environment`: `NAME = value`, where a value may be credentials('id'). */
class Environment {

    private final Controller controller
    final Map<String, Object> values = [:]

    Environment(Controller controller) {
        this.controller = controller
    }

    Map<String, Object> read(Closure body) {
        Closure block = (Closure) body.clone()
        block.delegate = this
        block.resolveStrategy = Closure.DELEGATE_ONLY
        block()
        values
    }

    Map credentials(String id) {
        String secret = controller.scenario.credentials[id]
        if (secret == null) {
            throw new StepFailed("Could not find credentials entry with ID '${id}'")
        }
        controller.recorder.hide(secret)
        [secret: secret]
    }

    Object propertyMissing(String name) {
        controller.named(name)
    }

    void propertyMissing(String name, Object value) {
        values[name] = value instanceof Map ? value.secret : value.toString()
    }

}
