/** Arguments of a step with its defaults; see spyreArguments.txt. */
Map call(String step, Map known, Map given) {
    List unknown = (given.keySet() - known.keySet()) as List
    if (unknown) {
        error("${step}: unknown argument ${unknown.join(', ')}; known: ${known.keySet().join(', ')}")
    }
    Map told = known + given
    List missing = known.keySet().findAll { name -> told[name] == null } as List
    if (missing) {
        error("${step}: missing argument ${missing.join(', ')}; known: ${known.keySet().join(', ')}")
    }
    return told
}
