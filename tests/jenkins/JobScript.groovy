/** What a script of jobs sees: folder, jobs of all kinds, the seed job's parameters and files of its workspace. */
abstract class JobScript extends Script {

    Object methodMissing(String name, Object arguments) {
        List<Object> given = arguments as List
        Map known = KnownJobs.KNOWN[name] as Map
        if (known == null) {
            throw new Refused("there is no kind of job ${name}; known: ${KnownJobs.KNOWN.keySet().join(', ')}")
        }
        List<Map> inside = JobBlock.of(name, known, given.last() as Closure)
        binding.getVariable('made') << [kind: name, name: given.first().toString(), inside: inside]
        null
    }

    String readFileFromWorkspace(String path) {
        File file = new File(binding.getVariable('workspace') as String, path)
        if (!file.isFile()) {
            throw new Refused("${path} is not in the workspace")
        }
        file.getText('UTF-8')
    }

}
