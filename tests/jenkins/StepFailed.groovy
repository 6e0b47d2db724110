/** A step that failed, as hudson.AbortException says it. */
class StepFailed extends RuntimeException {

    StepFailed(String message) {
        super(message)
    }

}
