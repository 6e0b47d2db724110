/** A block of a job, recorded: the methods called in it, each with what it was given and what its own block holds. */
class JobBlock {

    private final String where
    private final Map known
    final List<Map> read = []

    JobBlock(String where, Map known) {
        this.where = where
        this.known = known
    }

    /** Reads a block: a list of `{name, given, inside}`. */
    static List<Map> of(String where, Map known, Closure body) {
        JobBlock block = new JobBlock(where, known)
        Closure copy = (Closure) body.clone()
        copy.delegate = block
        copy.resolveStrategy = Closure.DELEGATE_FIRST
        copy()
        block.read
    }

    Object methodMissing(String name, Object arguments) {
        if (!known.containsKey(name)) {
            throw new Refused("${where} has no ${name}; known: ${known.keySet().sort().join(', ')}")
        }
        List<Object> given = arguments as List
        boolean hasBody = given && given.last() instanceof Closure
        if (hasBody == known[name].isEmpty()) {
            throw new Refused("${where}.${name} ${hasBody ? 'takes no' : 'wants a'} block")
        }
        List<Map> inside = hasBody ? of("${where}.${name}", known[name] as Map, given.last() as Closure) : []
        read << [name: name, given: hasBody ? given.take(given.size() - 1) : given, inside: inside]
        null
    }

}
