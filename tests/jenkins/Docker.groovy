/** `docker.image(NAME).inside(ARGUMENTS) { … }`: noted; the body runs on the agent itself. */
class Docker {

    private final Controller controller
    private String name

    Docker(Controller controller) {
        this.controller = controller
    }

    Docker image(String name) {
        this.name = name
        this
    }

    Object inside(String arguments = '', Closure body) {
        controller.agentOf('docker')
        controller.record(step: 'inside', state: 'begin', image: name, arguments: arguments)
        try {
            return body()
        } finally {
            controller.record(step: 'inside', state: 'end', image: name)
        }
    }

}
