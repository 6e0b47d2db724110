/** Runs a body on an agent, once more where the agent is lost; see spyreNode.txt. */
void call(Map given, Closure body) {
    Map told = spyreArguments('spyreNode', [
        label: null, minutes: null, cards: 0, sources: ['toolkit', 'project'], junit: '', files: '',
    ], given)
    Closure work = {
        try {
            timeout(time: told.minutes, unit: 'MINUTES') {
                deleteDir()
                told.sources.each { name -> unstash(name) }
                body()
            }
        } finally {
            spyreArchive(junit: told.junit, files: told.files)
        }
    }
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
