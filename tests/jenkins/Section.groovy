/** A section of a declarative pipeline: its directives are those of the list, each at most once. */
class Section {

    private final String name
    private final Set<String> known
    private final Controller controller
    final Map<String, Object> told = [:]
    boolean several

    Section(String name, Collection<String> known, Controller controller) {
        this.name = name
        this.known = known as Set
        this.controller = controller
    }

    /** Reads a section's block. */
    Section read(Closure body) {
        Closure block = (Closure) body.clone()
        block.delegate = this
        block.resolveStrategy = Closure.DELEGATE_ONLY
        block()
        this
    }

    Object methodMissing(String directive, Object arguments) {
        if (!(directive in known)) {
            throw new Refused("${name} has no directive ${directive}; known: ${known.sort().join(', ')}")
        }
        if (told.containsKey(directive) && !several) {
            throw new Refused("${name} has two of ${directive}")
        }
        List<Object> given = arguments as List
        if (several) {
            told[directive] = (told[directive] ?: []) + [given]
            return [directive: directive, given: given]
        }
        told[directive] = given
        [directive: directive, given: given]
    }

    Object propertyMissing(String property) {
        property in ['none', 'any'] && 'agent' in known ? property : controller.named(property)
    }

}
