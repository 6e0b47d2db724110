/** `currentBuild`, as far as it may be used. */
class Build {

    private final Controller controller

    Build(Controller controller) {
        this.controller = controller
    }

    String getCurrentResult() {
        controller.result
    }

    String getDisplayName() {
        '#' + controller.environment()['BUILD_NUMBER']
    }

    Object propertyMissing(String name) {
        throw new Refused("currentBuild.${name} is not on the list of what may be used")
    }

}
