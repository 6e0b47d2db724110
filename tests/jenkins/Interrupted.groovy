/** Somebody stopped the build, or a time-out did: FlowInterruptedException. */
class Interrupted extends RuntimeException {

    Interrupted(String message) {
        super(message)
    }

}
