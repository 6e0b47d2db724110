/** Runs one nox session of the toolkit; see spyreNox.txt. */
String call(Map given) {
    Map told = spyreArguments('spyreNox', [
        session: null, arguments: [], environment: [:], secrets: [:], image: '', lastLine: false,
        seconds: 0,
    ], given)
    List<String> words = told.arguments.collect { word -> word.toString() }
    if (words.any { word -> !word || word.contains('\n') }) {
        error("spyreNox: an argument of ${told.session} is empty or has more than one line")
    }
    List<String> variables = told.environment.collect { name, value -> "${name}=${value}" }
    variables += [
        "SPYRE_NOX_SESSION=${told.session}", "SPYRE_NOX_ARGUMENTS=${words.join('\n')}",
        "SPYRE_NOX_OUTPUT=${told.lastLine ? '../.output' : ''}", "SPYRE_NOX_SECONDS=${told.seconds ?: ''}",
    ]
    List secrets = told.secrets.collect { name, id -> string(credentialsId: id, variable: name) }
    Closure inToolkit = {
        withEnv(variables) {
            dir('toolkit') {
                // A word a line: nothing of an argument is looked at by the shell.
                sh(label: "nox -s ${told.session}", script: '''#!/bin/bash -xe
                    command -v nox > /dev/null || {
                        python3 -m venv ../.tools
                        ../.tools/bin/pip install --quiet nox
                        PATH="$PWD/../.tools/bin:$PATH"
                    }
                    words=()
                    [[ -z $SPYRE_NOX_ARGUMENTS ]] || mapfile -t words <<< "$SPYRE_NOX_ARGUMENTS"
                    if [[ -n $SPYRE_NOX_OUTPUT ]]; then
                        set -o pipefail
                        nox -s "$SPYRE_NOX_SESSION" -- "${words[@]}" | tee "$SPYRE_NOX_OUTPUT"
                        exit
                    fi
                    # Ended here it has failed; by Jenkins it would count as stopped, and the build with it.
                    [[ -z $SPYRE_NOX_SECONDS ]] || exec timeout --kill-after=30 "$SPYRE_NOX_SECONDS" \
                        nox -s "$SPYRE_NOX_SESSION" -- "${words[@]}"
                    exec nox -s "$SPYRE_NOX_SESSION" -- "${words[@]}"''')
                return told.lastLine ? readFile('../.output').readLines().last() : ''
            }
        }
    }
    Closure run = { secrets ? withCredentials(secrets, inToolkit) : inToolkit() }
    if (told.image) {
        // Such an image brings nox and what the session needs, and its own PyTorch is what is tested.
        variables += ['NOX_DEFAULT_VENV_BACKEND=none', "SPYRE_CI_IMAGE=${told.image}"]
        return docker.image(told.image).inside("--entrypoint='' ${env.SPYRE_DOCKER_ARGUMENTS ?: ''}", run)
    }
    return run()
}
