/** What a Jenkinsfile says that Jenkins does not know, or that its documentation rules out: a bug, never a result. */
class Refused extends Error {

    Refused(String message) {
        super(message)
    }

}
