/** The agent went away while a step needed it. */
class AgentLost extends RuntimeException {

    AgentLost(String message) {
        super(message)
    }

}
