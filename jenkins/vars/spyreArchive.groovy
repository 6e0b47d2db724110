/** Hands results over to Jenkins, whatever became of them; see spyreArchive.txt. */
void call(Map given) {
    Map told = spyreArguments('spyreArchive', [junit: '', files: '', stashes: [:]], given)
    if (!(told.junit || told.files || told.stashes)) {
        return
    }
    // Jenkins reads what links to folders lead to, and writes through those that it finds where it puts a stash. What
    // a container, or a test, laid leads anywhere on the agent. A link that cannot be removed ends it here.
    sh(label: 'no links', script: 'find -P . -type l -delete')
    for (String name in (told.stashes.keySet() as List)) {
        // An error here would hide why there is none.
        stash(name: name, includes: told.stashes[name], allowEmpty: true)
    }
    try {
        if (told.junit) {
            // What is red is spyre-ci's to say: a quarantined failure is none.
            junit(testResults: told.junit, allowEmptyResults: true, skipMarkingBuildUnstable: true)
        }
    } finally {
        if (told.files) {
            archiveArtifacts(artifacts: told.files, allowEmptyArchive: true, followSymlinks: false)
        }
    }
}
