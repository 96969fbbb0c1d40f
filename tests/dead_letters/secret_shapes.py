"""Examples of secrets in payloads, headers and error messages, by shape.

The author of `INITIAL_SHAPES` had not read the redaction rules. Add shapes, but never remove any.
"""

import json
from typing import NamedTuple


class Shape(NamedTuple):
    name: str
    carrier: object
    """JSON value that contains the secret. A string is an error message or log line."""
    secret: str
    """Text that must not occur in the redacted carrier."""


# Literals are split to prevent secret scanners from reporting the examples as credentials.
JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiI0NzExIiwibmFtZSI6IkFkYSJ9" + ".Jf36POk6yJV_adQssw5cAbc0Wq1Zt9kLmN2"
PEM_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"

INITIAL_SHAPES = (
    # Connection strings and URLs.
    Shape("postgresql url", 'connection to "postgresql://app:Tr0ub4dor@db.intern:5432/shop" failed', "Tr0ub4dor"),
    Shape("libpq keywords", "could not connect: host=db user=app password=Tr0ub4dor dbname=shop", "Tr0ub4dor"),
    Shape("libpq quoted", r"host=db user=app password='it is Tr0ub4dor\'s' dbname=shop", "Tr0ub4dor"),
    Shape("odbc", "Driver={ODBC 18};Server=tcp:db,1433;Uid=app;Pwd=Tr0ub4dor;Encrypt=yes;", "Tr0ub4dor"),
    Shape("odbc braces", "Server=db;UID=app;PWD={Tr0ub;4dor};Encrypt=yes;", "4dor"),
    Shape("jdbc", "jdbc:mysql://db/shop?user=app&password=Tr0ub4dor&useSSL=true", "Tr0ub4dor"),
    Shape("redis url without user", "Error 111 connecting to redis://:Tr0ub4dor@cache:6379/0", "Tr0ub4dor"),
    Shape("amqp url", {"broker": "amqps://guest:Tr0ub4dor@mq.example.com/vhost"}, "Tr0ub4dor"),
    Shape("mongodb url", "mongodb+srv://app:Tr0ub%404dor@cluster0.abcde.mongodb.net/?w=1", "Tr0ub%404dor"),
    Shape("url password with slash", "smtp://mailer:Tr0ub/4dor@mail.example.com:587", "4dor"),
    Shape(
        "git token url", "fatal: unable to access 'https://9f3ac01be77d4c2e@git.example.com/a.git/'", "9f3ac01be77d4c2e"
    ),
    Shape("escaped url", "redirect=https%3A%2F%2Fapp%3ATr0ub4dor%40host.example.com%2Fx", "Tr0ub4dor"),
    Shape(
        "s3 presigned",
        "GET https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature=3bd51c0de9aa7f",
        "3bd51c0de9aa7f",
    ),
    Shape(
        "s3 security token",
        "https://b.s3.amazonaws.com/k?X-Amz-Security-Token=IQoJb3JpZ2lu&X-Amz-Date=1",
        "IQoJb3JpZ2lu",
    ),
    Shape("azure sas", "https://a.blob.core.windows.net/c/f.pdf?sv=2022-11-02&sp=r&sig=Qm9uam91cg%3D%3D", "Qm9uam91cg"),
    Shape("gcs signed", "https://storage.googleapis.com/b/o?X-Goog-Signature=8a7be1f0c2d94e", "8a7be1f0c2d94e"),
    Shape("oauth redirect", "https://app.example.com/cb?state=x1&code=4/0AfJohXm8Qz3tB", "0AfJohXm8Qz3tB"),
    Shape("implicit flow fragment", "https://app.example.com/#access_token=ya29A0AfB8&token_type=Bearer", "ya29A0AfB8"),
    Shape("reset link", "https://app.example.com/reset?token=c1f2e3d4a5b6", "c1f2e3d4a5b6"),
    # HTTP.
    Shape("bearer header", {"headers": {"Authorization": "Bearer 7Fjfp0ZBr1KtDRbnfVdmIw"}}, "7Fjfp0ZBr1KtDRbnfVdmIw"),
    Shape(
        "raw request",
        "POST /v1 HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YXBwOlRyMHViNGRvcg==\r\n",
        "YXBwOlRyMHViNGRvcg",
    ),
    Shape("cookie header", "Cookie: theme=dark; session=s9fa8c7d6e5; lang=de", "s9fa8c7d6e5"),
    Shape("set-cookie", {"Set-Cookie": "JSESSIONID=A1B2C3D4E5F6; Path=/; HttpOnly"}, "A1B2C3D4E5F6"),
    Shape("java session in url", "https://portal.example.com/order;jsessionid=A1B2C3D4E5F6?id=4711", "A1B2C3D4E5F6"),
    Shape("jwt in prose", f"signature verification failed for {JWT}: key not found", JWT.rsplit(".", 1)[1]),
    Shape(
        "sigv4", "AWS4-HMAC-SHA256 Credential=X/20260101/eu/s3/aws4_request, Signature=5d672d79c15b13", "5d672d79c15b13"
    ),
    Shape(
        "digest", 'Authorization: Digest username="app", realm="r", response="6629fae49393a05397"', "6629fae49393a05397"
    ),
    Shape("asgi headers", "headers=[(b'host', b'a'), (b'authorization', b'Bearer 7Fjfp0ZBr1Kt')]", "7Fjfp0ZBr1Kt"),
    Shape("form body", "grant_type=client_credentials&client_id=shop&client_secret=Tr0ub4dor", "Tr0ub4dor"),
    Shape("multipart", '--b\r\nContent-Disposition: form-data; name="password"\r\n\r\nTr0ub4dor\r\n--b--', "Tr0ub4dor"),
    Shape("curl header", "curl -sS -H 'X-Auth-Token: Tr0ub4dor' https://api.example.com", "Tr0ub4dor"),
    # Structured payloads.
    Shape("camel case", {"clientSecret": "Tr0ub4dor"}, "Tr0ub4dor"),
    Shape("words as key", {"Client secret": "Tr0ub4dor"}, "Tr0ub4dor"),
    Shape("number", {"user": "ada", "password": 83920174}, "83920174"),
    Shape("list of secrets", {"passwords": ["Tr0ub4dor", "old"]}, "Tr0ub4dor"),
    Shape("object below a secret name", {"credentials": {"user": "ada", "value": "Tr0ub4dor"}}, "Tr0ub4dor"),
    Shape("docker environment", {"Env": ["PATH=/bin", "DB_PASSWORD=Tr0ub4dor"]}, "Tr0ub4dor"),
    Shape("kubernetes environment", {"env": [{"name": "DB_PASSWORD", "value": "Tr0ub4dor"}]}, "Tr0ub4dor"),
    Shape("json in json", {"body": json.dumps({"api_key": "Tr0ub4dor", "n": 1})}, "Tr0ub4dor"),
    Shape("json twice in json", {"body": json.dumps(json.dumps({"api_key": "Tr0ub4dor"}))}, "Tr0ub4dor"),
    Shape("service account", {"private_key": f"-----BEGIN PRIVATE KEY-----\\n{PEM_BODY}\\n-----END"}, PEM_BODY),
    Shape("docker auths", {"auths": {"r.example.com": {"auth": "YXBwOlRyMHViNGRvcg=="}}}, "YXBwOlRyMHViNGRvcg"),
    Shape("secret as key of an object", {"sessions": {JWT: {"user": "ada"}}}, JWT.rsplit(".", 1)[1]),
    Shape("one-time password", {"otp": "493021"}, "493021"),
    # Errors from Python and the database.
    Shape("keyword arguments", "connect(host='db', password='Tr0ub4dor') got an unexpected argument", "Tr0ub4dor"),
    Shape("dataclass", "ValueError: Settings(url='x', smtp_password='Tr0ub4dor', port=25)", "Tr0ub4dor"),
    Shape("dict repr", "KeyError in {'id': 7, 'api_key': 'Tr0ub4dor'}", "Tr0ub4dor"),
    Shape(
        "pydantic",
        "1 validation error for Login\napi_key\n  Value error, too short [type=value_error, input_value='Tr0ub4dor', "
        "input_type=str]",
        "Tr0ub4dor",
    ),
    Shape("unique violation", "DETAIL:  Key (api_token)=(Tr0ub4dor) already exists.", "Tr0ub4dor"),
    Shape("create role", "syntax error at: CREATE ROLE app LOGIN PASSWORD 'Tr0ub4dor'", "Tr0ub4dor"),
    Shape("identified by", "CREATE USER 'app'@'%' IDENTIFIED BY 'Tr0ub4dor'", "Tr0ub4dor"),
    # Files.
    Shape("shell export", "export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI"),
    Shape("shell prefix", "PGPASSWORD=Tr0ub4dor psql -h db", "Tr0ub4dor"),
    Shape("yaml", "smtp:\n  host: mail\n  password: Tr0ub4dor horse\n  port: 25", "horse"),
    Shape("ini", "[db]\npasswd = Tr0ub4dor\nport = 1", "Tr0ub4dor"),
    Shape("ruby", 'ActiveRecord: {:user => "app", :password => "Tr0ub4dor"}', "Tr0ub4dor"),
    Shape("xml element", "<login><user>app</user><password>Tr0ub4dor</password></login>", "Tr0ub4dor"),
    Shape("ws-security", '<wsse:Password Type="#PasswordText">Tr0ub4dor</wsse:Password>', "Tr0ub4dor"),
    Shape("xml attribute", '<connect user="app" password="Tr0ub4dor"/>', "Tr0ub4dor"),
    Shape("xml key and value", '<add key="ApiKey" value="Tr0ub4dor"/>', "Tr0ub4dor"),
    Shape("npmrc", "//registry.npmjs.org/:_authToken=Tr0ub4dor-4711", "Tr0ub4dor-4711"),
    Shape("netrc", "machine api.example.com login ada password Tr0ub4dor", "Tr0ub4dor"),
    Shape("jaas", 'PlainLoginModule required username="app" password="Tr0ub4dor";', "Tr0ub4dor"),
    Shape(
        "openssh key",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----",
        "b3BlbnNzaC1r",
    ),
    Shape("cut off key", f"cannot parse -----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}", PEM_BODY),
    Shape(
        "age key",
        "AGE-SECRET-KEY-" + "1QQPQZ0L8Y7X6W5V4U3T2S1R0Q9P8N7M6L5K4J3H2G1F0D9S8A7Z6X5C4V3",
        "QQPQZ0L8Y7X6W5V4U3T2",
    ),
    # Command lines.
    Shape("mysql", "mysql -uroot -pTr0ub4dor shop: exit status 1", "Tr0ub4dor"),
    Shape("sshpass", "sshpass -p Tr0ub4dor ssh app@host: exit status 5", "Tr0ub4dor"),
    Shape("powershell", 'ConvertTo-SecureString "Tr0ub4dor" -AsPlainText -Force', "Tr0ub4dor"),
    Shape("argv", {"args": ["psql", "--password", "Tr0ub4dor", "--host", "db"]}, "Tr0ub4dor"),
    # Tokens without a name.
    Shape("aws access key id", "InvalidAccessKeyId: AKIA" + "QYLPMN5HFIQR7XYA does not exist", "QYLPMN5HFIQR7XYA"),
    Shape("google api key", "API key not valid: AIza" + "SyD4iE2xVSpkLLLXoyqTcD3eF5gH7jK9mNp", "SyD4iE2xVSpkLLL"),
    Shape("stripe", "No such customer for sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", "4eC39HqLyjWDarjtT1zdp7dc"),
    Shape("github", "Bad credentials: ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a", "16C7e42F292c6912E77"),
    Shape("github fine-grained", "github_pat_" + "11ABCDEFG0abcdefghijkl_" + "Zy9" * 19 + "Qr", "Zy9Zy9Zy9"),
    Shape("gitlab", "remote: HTTP Basic: Access denied for glpat-" + "Xy7_kLmN0pQrStUvWx1Z", "Xy7_kLmN0pQrStUvWx1Z"),
    Shape(
        "slack bot",
        "invalid_auth xoxb-" + "2301234567-2309876543210-AbCdEfGhIjKlMnOpQrStUvWx",
        "AbCdEfGhIjKlMnOpQrStUvWx",
    ),
    Shape(
        "slack webhook",
        "POST https://hooks.slack.com/services/" + "T00AB1CD2/B00EF3GH4/Xk9LmN8oPq7RsT6uVw5XyZ4a",
        "Xk9LmN8oPq7RsT6u",
    ),
    Shape(
        "sendgrid",
        "SG." + "ngeVfQFYQlKU0ufo8x5d1A." + "TwL2iGABf9DHoTf09kqeF8tAmbihYzrnopKc1s5cr3A",
        "TwL2iGABf9DHoTf09k",
    ),
    Shape(
        "openai",
        "Incorrect API key provided: sk-proj-" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5zA7",
        "aB3dE5fG7hI9jK1lM3",
    ),
    Shape(
        "anthropic",
        "invalid x-api-key sk-ant-" + "api03-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5zA7-AA",
        "aB3dE5fG7hI9jK1lM3",
    ),
    Shape("npm token", "npm_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5", "aB3dE5fG7hI9jK1lM3"),
    # Prose.
    Shape("english sentence", "Login failed: the password is Tr0ub4dor for user ada", "Tr0ub4dor"),
    Shape("german sentence", "Anmeldung fehlgeschlagen. Ihr Passwort lautet: Tr0ub4dor", "Tr0ub4dor"),
    Shape("log line", 'level=error token=Tr0ub4dor msg="denied"', "Tr0ub4dor"),
)

REVIEW_FINDINGS = (
    # Found unredacted in a security review.
    Shape(
        "account key", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=Tr0ub4dor/x+y==;Suffix=b", "Tr0ub4dor"
    ),
    Shape(
        "pgp block",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOYBGPgTr0ub4dor\n=aB1c\n-----END PGP PRIVATE KEY BLOCK-----",
        "lQOYBGPgTr0ub4dor",
    ),
    Shape("curl user", "curl -u ada:Tr0ub4dor https://api.example.com/v1: exit status 22", "Tr0ub4dor"),
    Shape("curl long user", "curl --user 'ada:Tr0ub 4dor' https://api.example.com", "4dor"),
    Shape("password option", "pg_dump --host db --password Tr0ub4dor shop", "Tr0ub4dor"),
    Shape("token option", "deploy --api-token Tr0ub4dor --region eu", "Tr0ub4dor"),
    Shape("tuple", "sent [('user', 'ada'), ('password', 'Tr0ub4dor')]", "Tr0ub4dor"),
    Shape("header objects", {"headers": [{"name": "X-Api-Key", "value": "Tr0ub4dor"}]}, "Tr0ub4dor"),
    Shape("header lists", {"headers": [["Host", "a"], ["Authorization", "Tr0ub4dor"]]}, "Tr0ub4dor"),
    Shape("flat headers", {"rawHeaders": ["Host", "a", "X-Auth-Token", "Tr0ub4dor", "Accept", "b"]}, "Tr0ub4dor"),
    Shape(
        "telegram url",
        "POST https://api.telegram.org/bot123456789:AAF-Tr0ub4dorTr0ub4dorTr0ub4dor123/send",
        "AAF-Tr0ub4dor",
    ),
    Shape("telegram token", "chat not found for 123456789:AAF-Tr0ub4dorTr0ub4dorTr0ub4dor123", "AAF-Tr0ub4dor"),
    Shape("discord webhook", "https://discord.com/api/webhooks/112233445566778899/Tr0ub4dor_x-Y: 404", "Tr0ub4dor"),
    Shape(
        "teams webhook", "https://acme.webhook.office.com/webhookb2/6f1c@9b5f/IncomingWebhook/Tr0ub4dor/77", "Tr0ub4dor"
    ),
    Shape("hugging face", "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567", "aBcDeFgHiJkLmNoPqRs"),
    Shape("pypi", "pypi-" + "AgEIcHlwaS5vcmcCJDk4NzY1NDMyLTEyMzQ", "JDk4NzY1NDMyLTEyMzQ"),
    Shape("digitalocean", "dop_v1_" + "9f" * 32, "9f9f9f9f"),
    Shape("shopify", "shpat_" + "0a1b2c3d4e5f60718293a4b5c6d7e8f9", "0a1b2c3d4e5f6071"),
    Shape("gitlab runner", "glrt-" + "Tr0ub4dorTr0ub4dor12", "Tr0ub4dor"),
    Shape("vault", "permission denied for hvs." + "CAESIJRM-Tr0ub4dorTr0ub4dor", "Tr0ub4dor"),
    Shape("token as user", "clone of https://Tr0ub4dor4711@host.example.com/a.git failed", "Tr0ub4dor4711"),
    Shape("query key", "GET https://maps.example.com/geo?address=Ulm&key=Tr0ub4dor-4711: 403", "Tr0ub4dor-4711"),
    Shape("query auth", "GET https://api.example.com/v1?auth=Tr0ub4dor&x=1: 403", "Tr0ub4dor"),
    Shape("query code", "GET https://fn.example.com/api/run?code=Tr0ub4dor==: 401", "Tr0ub4dor"),
    Shape("kennwort", "Kennwort: Tr0ub4dor", "Tr0ub4dor"),
    Shape("passwort", {"Passwort": "Tr0ub4dor"}, "Tr0ub4dor"),
    Shape("mot de passe", "Mot de passe : Tr0ub4dor", "Tr0ub4dor"),
    Shape("contraseña", {"contraseña": "Tr0ub4dor"}, "Tr0ub4dor"),
    Shape("contraseña in text", "La contraseña: Tr0ub4dor no es válida", "Tr0ub4dor"),
    Shape("key pw", {"pw": "Tr0ub4dor"}, "Tr0ub4dor"),
    Shape("key auth", {"auth": "Tr0ub4dor"}, "Tr0ub4dor"),
    Shape("key key", {"key": "Tr0ub4dor"}, "Tr0ub4dor"),
)

STRUCTURED_SHAPES = (
    Shape("value before name", {"parameters": [{"value": "Tr0ub4dor", "name": "password"}]}, "Tr0ub4dor"),
    Shape("tags", {"Tags": [{"Key": "db-password", "Value": "Tr0ub4dor"}]}, "Tr0ub4dor"),
    Shape("values of a name", {"header": "X-Api-Key", "values": ["Tr0ub4dor"]}, "Tr0ub4dor"),
    Shape("repr of a header object", "bad header {'name': 'X-Api-Key', 'value': 'Tr0ub4dor'}", "Tr0ub4dor"),
    Shape("repr with the value first", "bad header {'value': 'Tr0ub4dor', 'name': 'X-Api-Key'}", "Tr0ub4dor"),
    Shape("json list in a sentence", 'sent [["Authorization", "Tr0ub4dor"]] and failed', "Tr0ub4dor"),
    Shape("repr of argv", "Command '['psql', '--password', 'Tr0ub4dor', '-h', 'db']' failed", "Tr0ub4dor"),
    Shape("option with single dash", "az login -Password Tr0ub4dor -Tenant a", "Tr0ub4dor"),
    Shape(
        "pydantic as json", {"detail": [{"loc": ["body", "password"], "input": "Tr0ub4dor", "msg": "x"}]}, "Tr0ub4dor"
    ),
    Shape(
        "pydantic nested",
        "1 error\nsmtp.password\n  x [type=string_type, input_value='Tr0ub4dor', input_type=str]",
        "Tr0ub4dor",
    ),
    Shape("composite key", "DETAIL:  Key (tenant_id, api_token)=(6f1c1c0e, Tr0ub4dor) already exists.", "Tr0ub4dor"),
    Shape("failing row", {"row": {"id": 7, "refreshToken": "Tr0ub4dor"}}, "Tr0ub4dor"),
    Shape("escaped assignment", "POST body was user%3Dada%26password%3DTr0ub4dor%26x%3D1", "Tr0ub4dor"),
    Shape("go assignment", 'apiKey := "Tr0ub4dor"', "Tr0ub4dor"),
    Shape("properties", "spring.datasource.password=Tr0ub4dor", "Tr0ub4dor"),
    Shape("toml", '[smtp]\npassword = "Tr0ub4dor horse"\n', "horse"),
    Shape("yaml list", "users:\n  - name: ada\n    password: Tr0ub4dor horse\n", "horse"),
    Shape("wget", "wget --user=ada --password=Tr0ub4dor https://example.com", "Tr0ub4dor"),
    Shape("docker login", "docker login -u ada --password Tr0ub4dor registry.example.com", "Tr0ub4dor"),
    Shape("mysqldump", "mysqldump --host=db -u root -pTr0ub4dor shop", "Tr0ub4dor"),
    Shape("proxy url", {"https_proxy": "http://ada:Tr0ub4dor@proxy:3128"}, "Tr0ub4dor"),
    Shape("sentry dsn", {"dsn": "https://0123456789abcdef0123456789abcdef@sentry.example.com/4"}, "0123456789abcdef"),
    Shape(
        "service bus",
        "Endpoint=sb://a.servicebus.windows.net/;SharedAccessKeyName=r;SharedAccessKey=Tr0ub4dor=",
        "Tr0ub4dor",
    ),
    Shape("zapier hook", "https://hooks.zapier.com/hooks/catch/123456/Tr0ub4dor/: 410", "Tr0ub4dor"),
    Shape(
        "google chat hook", "https://chat.googleapis.com/v1/spaces/A/messages?key=AIzx1&token=Tr0ub4dor", "Tr0ub4dor"
    ),
    Shape(
        "discord bot",
        "401 for MTk4NjIyNDgzNDcxOTI1MjQ4" + ".Cl2FMQ." + "ZnCjm1XVW7vRze4b7Cq4se7kKWs",
        "ZnCjm1XVW7vRze4b7",
    ),
    Shape("openrouter", "sk-or-v1-" + "0123456789abcdef" * 4, "0123456789abcdef"),
    Shape("notion", "ntn_" + "12345678901abcdefghijklmnopqrstuvwxyzABCDEFGHI", "12345678901abcdef"),
    Shape("databricks", "dapi" + "0123456789abcdef0123456789abcdef", "0123456789abcdef"),
    Shape("docker hub", "dckr_pat_" + "aBcDeFgHiJkLmNoPqRsTuVwX123", "aBcDeFgHiJkLm"),
    Shape("linear", "lin_api_" + "aBcDeFgHiJkLmNoPqRsTuVwX1234567890aBcDeF", "aBcDeFgHiJkLm"),
    Shape("postman", "PMAK-" + "0123456789abcdef01234567-0123456789abcdef0123456789abcdef01", "0123456789abcdef01"),
    Shape("square", "sq0atp-" + "aBcDeFgHiJkLmNoPqRsT12", "aBcDeFgHiJkLm"),
    Shape("stripe webhook secret", "whsec_" + "aBcDeFgHiJkLmNoPqRsTuVwX1234567890", "aBcDeFgHiJkLm"),
    Shape("dutch", {"Wachtwoord": "Tr0ub4dor"}, "Tr0ub4dor"),
    Shape("swedish", {"lösenord": "Tr0ub4dor"}, "Tr0ub4dor"),
    Shape("polish", "Hasło: Tr0ub4dor", "Tr0ub4dor"),
    Shape("portuguese", "senha=Tr0ub4dor", "Tr0ub4dor"),
    Shape("french sentence", "Votre mot de passe est Tr0ub4dor", "Tr0ub4dor"),
    Shape("spanish sentence", "Su contraseña es Tr0ub4dor", "Tr0ub4dor"),
    Shape("card check", {"card": {"cvv": "4711"}}, "4711"),
    Shape("saml", {"SAMLResponse": "PHNhbWxwOlJlc3BvbnNl"}, "PHNhbWxwOlJlc3BvbnNl"),
    Shape("client assertion", "client_assertion=Tr0ub4dor&grant_type=x", "Tr0ub4dor"),
    Shape("json with a trailing sentence", '{"user": "ada", "password": "Tr0ub4dor"} is not accepted', "Tr0ub4dor"),
    Shape("secret as last path of an escaped url", "next=https%3A%2F%2Fa%3Ftoken%3DTr0ub4dor", "Tr0ub4dor"),
    Shape("html input", '<input type="password" name="pw" value="Tr0ub4dor">', "Tr0ub4dor"),
)

FOLLOW_UP_SHAPES = (
    # An author who did not know the rules wrote 90 shapes. The rules missed these shapes or similar ones.
    Shape("oracle thin", "cannot connect to jdbc:oracle:thin:batch/Tr0ub4dor@//db.intern:1521/FIN", "Tr0ub4dor"),
    Shape(
        "auth tuple", "failed: session.get('https://example.com', auth=('ada', 'Tr0ub4dor'), timeout=30)", "Tr0ub4dor"
    ),
    Shape("auth tuple in json", {"call": 'HTTPBasicAuth("ada", "Tr0ub4dor")'}, "Tr0ub4dor"),
    Shape("ldapsearch", "ldapsearch -x -H ldaps://ad -D 'CN=svc,DC=a' -w Tr0ub4dor -b 'DC=a'", "Tr0ub4dor"),
    Shape("sqlplus", "sqlplus -s batch/Tr0ub4dor@FIN @report.sql", "Tr0ub4dor"),
    Shape(
        "sign-in link",
        "Sign in: https://portal.example.com/login/magic/qTBNPELEgn45vMHU4NYCOfKfn3Pq",
        "qTBNPELEgn45vMHU",
    ),
    Shape("reset link", "https://example.com/password/reset/9f3ac01be77d4c2e9f3ac01b?lang=de", "9f3ac01be77d4c2e"),
    Shape("invitation", {"url": "https://example.com/invite/Tr0ub4dorTr0ub4dorTr0ub4dor"}, "Tr0ub4dor"),
    Shape(
        "bcrypt",
        "Failing row contains (42, $2b$12$PnuCYjFscsXohwi50rqhes56npyfDu8Ie5i0SNDhUdXPh0duMrtBA, t).",
        "PnuCYj",
    ),
    Shape("argon2", "ada:$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub+b4dWA", "RdescudvJCsgt3ub"),
    Shape("shadow", "ada:$6$rounds=5000$saltstring$Tr0ub4dorTr0ub4dorTr0ub4dor:19000:0:99999:7:::", "Tr0ub4dor"),
    Shape("htpasswd", "ada:$apr1$x8Jq2v1P$Tr0ub4dorTr0ub4dor12", "Tr0ub4dor"),
    Shape("scram", "rolpassword | SCRAM-SHA-256$4096:c2FsdA==$Tr0ub4dor=:Tr0ub4dor=", "Tr0ub4dor"),
    Shape("django", "pbkdf2_sha256$600000$salt$Tr0ub4dorTr0ub4dorTr0ub4dor=", "Tr0ub4dor"),
    Shape("one-time code, german", "Ihr Einmalcode lautet: 483 917. Er ist 5 Minuten gültig.", "483 917"),
    Shape("one-time code, english", "Your verification code is 483917", "483917"),
    Shape("one-time code, french", "Votre code de vérification est 483-917", "483-917"),
    Shape("tan", "mTAN: 483917 für die Überweisung", "483917"),
    Shape("seed phrase", {"mnemonic": "orbit velvet cactus tunnel spawn gravity"}, "orbit velvet"),
    Shape("seed phrase in a text", 'seed phrase: "orbit velvet cactus tunnel spawn gravity"', "orbit velvet"),
    Shape("backup codes", {"backup_codes": ["48391-7zqk2"]}, "48391-7zqk2"),
)

BLIND_SECRET = "Zk9vQ2mT"
BLIND_SHAPES = (
    # Written by another author who did not know the rules. At first, the rules hid 32 of these 51 secrets.
    Shape("basic auth header in list", [["authorization", "Basic " + "dXNlcjpaazl2UTJtVA=="]], "dXNlcjpaazl2UTJtVA"),
    Shape("graphql variables", {"variables": {"newPassword": BLIND_SECRET}}, BLIND_SECRET),
    Shape(
        "oauth client secret post",
        "grant_type=client_credentials&client_id=x&client_secret=" + BLIND_SECRET,
        BLIND_SECRET,
    ),
    Shape(
        "kubernetes secret",
        {"kind": "Secret", "data": {"tls.key": "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t"}},
        "LS0tLS1CRUdJTiBQUklWQVRF",
    ),
    Shape("k8s stringData", {"kind": "Secret", "stringData": {"DB_PASS": BLIND_SECRET}}, BLIND_SECRET),
    Shape("env list", {"env": [{"name": "DB_PASSWORD", "value": BLIND_SECRET}]}, BLIND_SECRET),
    Shape("env dict", {"env": {"STRIPE_SECRET": BLIND_SECRET}}, BLIND_SECRET),
    Shape("docker -e", "docker run -e POSTGRES_PASSWORD=" + BLIND_SECRET + " postgres:16", BLIND_SECRET),
    Shape("ftp url", "ftp://ada:" + BLIND_SECRET + "@files.example.com/out", BLIND_SECRET),
    Shape(
        "http proxy error",
        "Proxy CONNECT aborted: http://ada:" + BLIND_SECRET + "@proxy.example.com:8080",
        BLIND_SECRET,
    ),
    Shape("smtp auth plain", "AUTH PLAIN AGFkYQB" + BLIND_SECRET + "==", BLIND_SECRET),
    Shape("smtp auth login", "535 5.7.8 AUTH LOGIN " + "WmtudlEybVQ=", "WmtudlEybVQ"),
    Shape(
        "azure conn servicebus",
        "Endpoint=sb://a.servicebus.windows.net/;SharedAccessKeyName=r;SharedAccessKey=" + BLIND_SECRET + "abcdefgh=",
        BLIND_SECRET,
    ),
    Shape("hmac header", {"headers": {"X-Hub-Signature-256": "sha256=" + "ab12cd34" * 8}}, "ab12cd34ab12"),
    Shape("stripe webhook secret", "whsec_" + "aBcDeFgHiJkLmNoPqRsTuVwX12345678", "aBcDeFgHiJkL"),
    Shape("mailgun key", "key-" + "0123456789abcdef" * 2, "0123456789abcdef"),
    Shape("twilio", "SK" + "0123456789abcdef" * 2, "0123456789abcdef"),
    Shape("google oauth refresh", "1//0gAbCdEfGhIjKlMnOpQrStUvWxYz-ABCDEFGH1234567890abcdef", "AbCdEfGhIjKl"),
    Shape("cookie attr in JSON", {"cookies": [{"name": "sid", "value": BLIND_SECRET + BLIND_SECRET}]}, BLIND_SECRET),
    Shape("set-cookie list", {"Set-Cookie": ["sid=" + BLIND_SECRET + "; Path=/"]}, BLIND_SECRET),
    Shape("italian", "La password è: " + BLIND_SECRET, BLIND_SECRET),
    Shape("italian parola", "Parola d'ordine: " + BLIND_SECRET, BLIND_SECRET),
    Shape("spanish clave", "clave: " + BLIND_SECRET, BLIND_SECRET),
    Shape("portuguese senha", {"senha": BLIND_SECRET}, BLIND_SECRET),
    Shape("dutch wachtwoord", "Wachtwoord: " + BLIND_SECRET, BLIND_SECRET),
    Shape("polish haslo", {"hasło": BLIND_SECRET}, BLIND_SECRET),
    Shape("swedish lösenord", "Lösenord: " + BLIND_SECRET, BLIND_SECRET),
    Shape("czech heslo", {"heslo": BLIND_SECRET}, BLIND_SECRET),
    Shape("french mdp", {"mdp": BLIND_SECRET}, BLIND_SECRET),
    Shape("german zugangscode", "Zugangscode: " + BLIND_SECRET, BLIND_SECRET),
    Shape("german pin", "Ihre PIN lautet 4711", "4711"),
    Shape("credit card", "Karte 4111 1111 1111 1111 abgelehnt", "4111 1111 1111 1111"),
    Shape("cvv", {"cvv": "123"}, '"123"'),
    Shape("passphrase", {"passphrase": "correct horse battery"}, "horse"),
    Shape(
        "private key jwk",
        {"kty": "RSA", "d": "X4cTteJY_gn4FYPsXB8rdXix5vwsg1FLN5E3EaG6RJoVH-HLLKD9", "n": "0vx7ago"},
        "X4cTteJY_gn4",
    ),
    Shape("ssh private one line", {"ssh_key": "-----BEGIN OPENSSH PRIVATE KEY-----" + BLIND_SECRET}, BLIND_SECRET),
    Shape(
        "putty",
        "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\nAAAAI" + BLIND_SECRET + BLIND_SECRET,
        BLIND_SECRET,
    ),
    Shape("saml", {"SAMLResponse": "PHNhbWxwOlJlc3BvbnNlIHhtbG5z" + BLIND_SECRET}, BLIND_SECRET),
    Shape("refresh in tuple", "('refresh_token', '" + BLIND_SECRET + "')", BLIND_SECRET),
    Shape("nested json string", {"body2": json.dumps({"a": json.dumps({"password": BLIND_SECRET})})}, BLIND_SECRET),
    Shape("colon pair basic", "Basic auth ada:" + BLIND_SECRET + " rejected", BLIND_SECRET),
    Shape("aws session", "AWS_SESSION_TOKEN=" + BLIND_SECRET * 6, BLIND_SECRET),
    Shape("key=val spaced", "api key = " + BLIND_SECRET, BLIND_SECRET),
    Shape("api key is", "The API key " + BLIND_SECRET + "12345 is invalid", BLIND_SECRET),
    Shape("psycopg dsn", "dsn: postgres://app:" + BLIND_SECRET + "@h/db?sslmode=require", BLIND_SECRET),
    Shape("mssql", "sqlcmd -BLIND_SECRET db -U sa -P " + BLIND_SECRET, BLIND_SECRET),
    Shape("openssl", "openssl rsa -in k.pem -passin pass:" + BLIND_SECRET, BLIND_SECRET),
    Shape("gpg", "gpg --batch --passphrase " + BLIND_SECRET + " -d f.gpg", BLIND_SECRET),
    Shape("curl -H header", "curl -H 'X-Auth-Token: " + BLIND_SECRET + "' https://a", BLIND_SECRET),
    Shape("curl cookie", "curl -b 'sid=" + BLIND_SECRET + "' https://a", BLIND_SECRET),
    Shape("http basic url encoded", "https://ada%40x.de:" + BLIND_SECRET + "@a.example", BLIND_SECRET),
)

WORDED_SECRET = "Wq7xLd93Rt"
WORDED_SHAPES = (
    # Written by the author of the rules for `BLIND_SHAPES`, before testing them. At first, they hid 30 of 44 secrets.
    Shape("terraform variable", 'variable "db_password" {\n  default = "' + WORDED_SECRET + '"\n}', WORDED_SECRET),
    Shape("hcl assignment", 'resource x { master_password = "' + WORDED_SECRET + '" }', WORDED_SECRET),
    Shape("php array", "$config['db']['password'] = '" + WORDED_SECRET + "';", WORDED_SECRET),
    Shape("java properties colon", "db.password: " + WORDED_SECRET, WORDED_SECRET),
    Shape(
        "xml attribute pair",
        '<property name="hibernate.connection.password">' + WORDED_SECRET + "</property>",
        WORDED_SECRET,
    ),
    Shape("url fragment id_token", "https://a.example/#id_token=" + WORDED_SECRET + WORDED_SECRET, WORDED_SECRET),
    Shape(
        "grpc metadata",
        "metadata: [('authorization', 'bearer " + WORDED_SECRET + "'), ('x-trace', '1')]",
        WORDED_SECRET,
    ),
    Shape("http trace of x-amz-security-token", "x-amz-security-token: " + WORDED_SECRET * 3, WORDED_SECRET),
    Shape(
        "kafka sasl config",
        'sasl.jaas.config=org.apache.kafka...ScramLoginModule required username="a" password="' + WORDED_SECRET + '";',
        WORDED_SECRET,
    ),
    Shape("ansible vault become", {"ansible_become_pass": WORDED_SECRET}, WORDED_SECRET),
    Shape(
        "docker config auth in text",
        '{"auths": {"r.io": {"auth": "YWRhOldxN3hMZDkzUnQ="}}} could not be read',
        "YWRhOldxN3hMZDkzUnQ",
    ),
    Shape("redis requirepass", "requirepass " + WORDED_SECRET, WORDED_SECRET),
    Shape("redis acl", "ACL SETUSER ada on >" + WORDED_SECRET + " ~*", WORDED_SECRET),
    Shape("mongo createUser", 'db.createUser({user: "ada", pwd: "' + WORDED_SECRET + '"})', WORDED_SECRET),
    Shape("alter role", "ALTER ROLE app WITH ENCRYPTED PASSWORD '" + WORDED_SECRET + "';", WORDED_SECRET),
    Shape("snowflake identified", "alter user ada set password = '" + WORDED_SECRET + "'", WORDED_SECRET),
    Shape("wifi psk", 'network={ ssid="Lager" psk="' + WORDED_SECRET + '" }', WORDED_SECRET),
    Shape("wpa text", "WLAN-Schlüssel: " + WORDED_SECRET, WORDED_SECRET),
    Shape("basic in url query", "https://a.example/?user=ada&passwd=" + WORDED_SECRET, WORDED_SECRET),
    Shape("ftp command log", "---> PASS " + WORDED_SECRET, WORDED_SECRET),
    Shape("imap login", "a001 LOGIN ada@example.com " + WORDED_SECRET, WORDED_SECRET),
    Shape("pop3", "C: PASS " + WORDED_SECRET, WORDED_SECRET),
    Shape("webhook secret in toml", 'webhook_signing_secret = "' + WORDED_SECRET + '"', WORDED_SECRET),
    Shape("totp uri", "otpauth://totp/Acme:ada?secret=JBSWY3DPEHPK3PXP&issuer=Acme", "JBSWY3DPEHPK3PXP"),
    Shape("gpg symmetric", "echo " + WORDED_SECRET + " | gpg --passphrase-fd 0 -c f", WORDED_SECRET),
    Shape("echo to passwd stdin", "echo '" + WORDED_SECRET + "' | docker login --password-stdin -u ada", WORDED_SECRET),
    Shape("net use", r"net use Z: \\srv\share " + WORDED_SECRET + " /user:ada", WORDED_SECRET),
    Shape("keytool", "keytool -list -keystore k.jks -storepass " + WORDED_SECRET, WORDED_SECRET),
    Shape(
        "git credential fill", "protocol=https\nhost=a.example\nusername=ada\npassword=" + WORDED_SECRET, WORDED_SECRET
    ),
    Shape("german sentence with Kennwort", "Das Kennwort für ada ist " + WORDED_SECRET + ".", WORDED_SECRET),
    Shape("english temporary", "Your temporary password: " + WORDED_SECRET + " (expires in 24 h)", WORDED_SECRET),
    Shape("dutch sentence", "Uw wachtwoord is " + WORDED_SECRET, WORDED_SECRET),
    Shape("russian", "Пароль: " + WORDED_SECRET, WORDED_SECRET),
    Shape("japanese", "パスワード\uff1a" + WORDED_SECRET, WORDED_SECRET),
    Shape("turkish", "Şifre: " + WORDED_SECRET, WORDED_SECRET),
    Shape("security answer", {"security_question": "pet", "security_answer": "Rex" + WORDED_SECRET}, WORDED_SECRET),
    Shape("camel privateKeyPem", {"privateKeyPem": WORDED_SECRET + WORDED_SECRET}, WORDED_SECRET),
    Shape("nested tuple of form fields", {"form": [["user", "ada"], ["pass", WORDED_SECRET]]}, WORDED_SECRET),
    Shape("env dump in one line", "env: HOME=/root SMTP_PW=" + WORDED_SECRET + " LANG=C", WORDED_SECRET),
    Shape("atlassian token", "ATATT3xFfGF0" + WORDED_SECRET * 6, WORDED_SECRET),
    Shape(
        "azure client secret",
        "AADSTS7000215: invalid client secret " + "abc8Q~" + WORDED_SECRET * 3 + "ab",
        WORDED_SECRET,
    ),
    Shape("new relic key", "NRAK-" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ1", "ABCDEFGHIJKLMNOPQRSTUVWXYZ1"),
    Shape("firebase server key", "AAAAabcDEF1:APA91b" + WORDED_SECRET * 13, WORDED_SECRET),
    Shape(
        "base64 pem in json",
        {"cert_bundle": {"key_pem": "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t"}},
        "LS0tLS1CRUdJTiBQUklWQVRF",
    ),
)

SHAPES = INITIAL_SHAPES + REVIEW_FINDINGS + STRUCTURED_SHAPES + FOLLOW_UP_SHAPES + BLIND_SHAPES + WORDED_SHAPES
