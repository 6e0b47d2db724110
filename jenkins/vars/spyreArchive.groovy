/** Hands results over to Jenkins, whatever became of them; see spyreArchive.txt. */
void call(Map given) {
    Map told = spyreArguments('spyreArchive', [junit: '', files: ''], given)
    try {
        if (told.junit) {
            // What is red is spyre-ci's to say: a quarantined failure is none.
            junit(testResults: told.junit, allowEmptyResults: true, skipMarkingBuildUnstable: true)
        }
    } finally {
        if (told.files) {
            // A test can lay a link to a file of the agent's; what it leads to is nobody's result.
            archiveArtifacts(artifacts: told.files, allowEmptyArchive: true, followSymlinks: false)
        }
    }
}
