import java.lang.annotation.ElementType
import java.lang.annotation.Retention
import java.lang.annotation.RetentionPolicy
import java.lang.annotation.Target

/** Stands for Jenkins' annotation that names a shared library. */
@Retention(RetentionPolicy.SOURCE)
@Target([ElementType.LOCAL_VARIABLE, ElementType.FIELD, ElementType.TYPE])
@interface Library {

    String[] value()

}
