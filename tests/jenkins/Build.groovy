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

    /** Why it began, as the scenario says: each with its class and who it was. */
    List<Map> getBuildCauses(String kind) {
        (controller.scenario.causes as List<Map>).findAll { one -> one._class == kind }
    }

    Object propertyMissing(String name) {
        throw new Refused("currentBuild.${name} is not on the list of what may be used")
    }

}
