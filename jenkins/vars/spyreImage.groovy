/** Builds, tests and pushes the runtime image; gives its name; see spyreImage.txt. */
String call(Map given) {
    Map told = spyreArguments('spyreImage', [
        label: null, minutes: 300, variant: 'pinned', with: [], tags: [], version: '', expected: '',
        environment: [:],
    ], given)
    List<String> words = ['build', '--variant', told.variant, '--push', '--json', '--results', '../results']
    told.with.each { one -> words += ['--with', one] }
    told.tags.each { one -> words += ['--tag', one] }
    words += told.version ? ['--version', told.version] : []
    words += told.expected ? ['--expect', told.expected] : []
    String image = ''
    spyreNode(label: told.label, minutes: told.minutes, junit: 'results/**/*.xml', files: 'results/**') {
        String made = spyreNox(
            session: 'image', arguments: words, environment: told.environment, lastLine: true)
        Map content = readJSON(text: made, returnPojo: true)
        image = "${content.image}@${content.digest}"
    }
    return image
}
