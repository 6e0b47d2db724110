import java.nio.file.FileVisitOption
import java.nio.file.Files
import java.nio.file.LinkOption
import java.nio.file.Path
import java.nio.file.StandardCopyOption
import java.util.regex.Pattern

/** Ant's patterns, as stash, junit and archiveArtifacts take them. */
class Globs {

    // Of Ant's default excludes those that occur in a checkout.
    static final List<String> EXCLUDED = ['**/.git', '**/.git/**', '**/.gitignore', '**/.gitattributes', '**/*~']

    /** Files below a folder, and below folders that links in it lead to, that a comma list of patterns names. */
    static List<String> find(File folder, String patterns, boolean defaultExcludes = true, boolean follows = true) {
        List<Pattern> wanted = patterns.split(',').collect { one -> asPattern(one.trim()) }
        List<Pattern> left = defaultExcludes ? EXCLUDED.collect { one -> asPattern(one) } : []
        Path root = folder.toPath()
        List<String> found = []
        if (folder.isDirectory()) {
            Files.walk(root, (follows ? [FileVisitOption.FOLLOW_LINKS] : []) as FileVisitOption[]).each { path ->
                if (!Files.isDirectory(path) && (follows || !Files.isSymbolicLink(path))) {
                    found << root.relativize(path).toString()
                }
            }
        }
        found.findAll { name -> wanted.any { name ==~ it } && !left.any { name ==~ it } }.sort()
    }

    /** Links stay links; what stands behind one that is there already is written to. */
    static void copy(File from, File to, List<String> names) {
        names.each { name ->
            File source = new File(from, name)
            File target = new File(to, name)
            target.parentFile.mkdirs()
            if (Files.isSymbolicLink(target.toPath()) && !Files.isSymbolicLink(source.toPath())) {
                target.bytes = source.bytes
                return
            }
            Files.copy(
                source.toPath(), target.toPath(), LinkOption.NOFOLLOW_LINKS,
                StandardCopyOption.COPY_ATTRIBUTES, StandardCopyOption.REPLACE_EXISTING)
        }
    }

    private static Pattern asPattern(String glob) {
        String whole = glob.endsWith('/') ? glob + '**' : glob
        StringBuilder text = new StringBuilder()
        whole.split('(?<=/)|(?<=\\*\\*)|(?=\\*\\*)').each { String part ->
            text << (part == '**' ? '.*' : part.split('(?<=[*?])|(?=[*?])').collect { one ->
                one == '*' ? '[^/]*' : one == '?' ? '[^/]' : one ? Pattern.quote(one) : ''
            }.join(''))
        }
        Pattern.compile(text.toString().replace('.*' + Pattern.quote('/'), '(.*/)?'))
    }

}
