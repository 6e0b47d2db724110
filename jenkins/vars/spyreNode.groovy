/** Runs a body on an agent, once more where the agent is lost; see spyreNode.txt. */
void call(Map given, Closure body) {
    Map told = spyreArguments('spyreNode', [
        label: null, minutes: null, cards: 0, sources: ['toolkit', 'project'], junit: '', files: '',
        stashes: [:],
    ], given)
    Closure work = {
        // What is handed over stands outside of the time-out: Jenkins cuts what its body does once it has struck.
        try {
            timeout(time: told.minutes, unit: 'MINUTES') {
                deleteDir()
                for (String name in told.sources) {
                    unstash(name)
                }
                body()
            }
        } finally {
            spyreArchive(junit: told.junit, files: told.files, stashes: told.stashes)
        }
    }
    // Room for both attempts, so that what this one ends is waiting, or a step of Jenkins' own that hangs.
    timeout(time: 24 * 60 + 2 * told.minutes, unit: 'MINUTES') {
        retry(count: 2, conditions: [agent(), nonresumable()]) {
            node(told.label) {
                if (told.cards) {
                    lock(label: "spyre-cards-${env.NODE_NAME}", quantity: told.cards, variable: 'SPYRE_LOCKED', work)
                } else {
                    // lock(quantity: 0) would take all cards there are.
                    work()
                }
            }
        }
    }
}
